extern "C" __global__ void __launch_bounds__(256) column_607ccfada3bc(
    const float* operand0,
    float* operand1,
    long long size0, long long size1, long long size2,
    long long offset0, long long offset1,
    long long stride0_2,
    long long stride1_1) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long points = size0 * size1;
    for (long long point = group * threads + thread; point < points; point += groups * threads) {
        const long long i0 = point % size0;
        const long long i1 = point / size0;
        const long long length = (size2 + size1 * 64 - 1) / (size1 * 64) * 64;
        const long long start = min(i1 * length, size2);
        const long long stop = min(start + length, size2);
        float fold0_0 = 0.0f;
        float fold0_0_block = 0.0f;
        long long turns0 = 0;
        for (long long i2 = start; i2 < stop; i2 += 1) {
            const float v0 = operand0[offset0 + i0 + i2 * stride0_2];
            const float v1 = fold0_0_block + v0;
            fold0_0_block = v1;
            turns0 += 1;
            if (turns0 == 64) {
                const float v2 = fold0_0 + fold0_0_block;
                fold0_0 = v2;
                fold0_0_block = 0.0f;
                turns0 = 0;
            }
        }
        const float v3 = fold0_0 + fold0_0_block;
        fold0_0 = v3;
        operand1[offset1 + i0 + i1 * stride1_1] = fold0_0;
    }
}
