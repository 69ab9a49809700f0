extern "C" __global__ void __launch_bounds__(256) scan_2a148969f646(
    const float* operand0,
    float* operand1,
    long long size0, long long size1, long long size2,
    long long offset0, long long offset1,
    long long stride0_0, long long stride0_2,
    long long stride1_0, long long stride1_2) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long points = size0 * size1;
    for (long long point = group * threads + thread; point < points; point += groups * threads) {
        const long long i1 = point % size1;
        const long long i0 = point / size1;
        float fold0_0 = (-0.0f);
        for (long long i2 = 0; i2 < size2; i2 += 1) {
            const float v0 = operand0[offset0 + i0 * stride0_0 + i1 + i2 * stride0_2];
            const float v1 = fold0_0 + v0;
            fold0_0 = v1;
            operand1[offset1 + i0 * stride1_0 + i1 + i2 * stride1_2] = fold0_0;
        }
    }
}
