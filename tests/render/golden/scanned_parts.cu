extern "C" __global__ void __launch_bounds__(256) scan_01367d7184f0(
    const float* operand0,
    float* operand1,
    long long given2,
    const float* operand3,
    long long size0, long long size1, long long size2,
    long long offset0, long long offset1, long long offset3,
    long long stride0_0,
    long long stride1_0,
    long long stride3_1) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long scalar2 = given2;
    const long long points = size0 * size1;
    for (long long point = group * threads + thread; point < points; point += groups * threads) {
        const long long i0 = point % size0;
        const long long i1 = point / size0;
        const bool v0 = i1 > 0LL;
        const long long v1 = (long long)((unsigned long long)0LL - (unsigned long long)scalar2);
        const float v2 = v0 ? operand3[offset3 + i0 + i1 * stride3_1 + v1] : 0.0f;
        const float v3 = v0 ? v2 : (-0.0f);
        float fold0_0 = v3;
        const long long length = (size2 + size1 * 64 - 1) / (size1 * 64) * 64;
        const long long start = min(i1 * length, size2);
        const long long stop = min(start + length, size2);
        for (long long i2 = start; i2 < stop; i2 += 1) {
            const float v4 = operand0[offset0 + i0 * stride0_0 + i2];
            const float v5 = fold0_0 + v4;
            fold0_0 = v5;
            operand1[offset1 + i0 * stride1_0 + i2] = fold0_0;
        }
    }
}
