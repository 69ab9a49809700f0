extern "C" __global__ void __launch_bounds__(256) row_f649c314a993(
    const float* operand0,
    float* operand1,
    float* operand2,
    long long size0, long long size1, long long size2,
    long long offset0, long long offset1, long long offset2,
    long long stride0_0,
    long long stride1_1,
    long long stride2_1) {
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    __shared__ float lanes_float32_0[256];
    __shared__ float lanes_float32_1[256];
    const long long points = size0 * size1;
    for (long long point = group; point < points; point += groups) {
        const long long i1 = point % size1;
        const long long i0 = point / size1;
        const long long length = (size2 + size1 * 64 - 1) / (size1 * 64) * 64;
        const long long start = min(i1 * length, size2);
        const long long stop = min(start + length, size2);
        const long long elements = (stop - start);
        float fold0_0 = 0.0f;
        float fold0_0_block = 0.0f;
        float fold1_0 = __uint_as_float(0xff800000u);
        float fold1_0_block = __uint_as_float(0xff800000u);
        long long turns0 = 0;
        for (long long element = thread; element < elements; element += threads) {
            const long long i2 = start + element;
            const float v0 = operand0[offset0 + i0 * stride0_0 + i2];
            const float v1 = fold0_0_block + v0;
            fold0_0_block = v1;
            const bool v2 = fold1_0_block > v0;
            const bool v3 = isnan(fold1_0_block);
            const bool v4 = v2 | v3;
            const float v5 = v4 ? fold1_0_block : v0;
            fold1_0_block = v5;
            turns0 += 1;
            if (turns0 == 64) {
                const float v6 = fold0_0 + fold0_0_block;
                fold0_0 = v6;
                const bool v7 = fold1_0 > fold1_0_block;
                const bool v8 = isnan(fold1_0);
                const bool v9 = v7 | v8;
                const float v10 = v9 ? fold1_0 : fold1_0_block;
                fold1_0 = v10;
                fold0_0_block = 0.0f;
                fold1_0_block = __uint_as_float(0xff800000u);
                turns0 = 0;
            }
        }
        const float v11 = fold0_0 + fold0_0_block;
        fold0_0 = v11;
        const bool v12 = fold1_0 > fold1_0_block;
        const bool v13 = isnan(fold1_0);
        const bool v14 = v12 | v13;
        const float v15 = v14 ? fold1_0 : fold1_0_block;
        fold1_0 = v15;
        lanes_float32_0[thread] = fold0_0;
        lanes_float32_1[thread] = fold1_0;
        __syncthreads();
        for (long long reach = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                const float v16 = lanes_float32_0[thread];
                const float v17 = lanes_float32_0[thread + reach];
                const float v18 = v16 + v17;
                lanes_float32_0[thread] = v18;
                const float v19 = lanes_float32_1[thread];
                const float v20 = lanes_float32_1[thread + reach];
                const bool v21 = v19 > v20;
                const bool v22 = isnan(v19);
                const bool v23 = v21 | v22;
                const float v24 = v23 ? v19 : v20;
                lanes_float32_1[thread] = v24;
            }
            __syncthreads();
        }
        fold0_0 = lanes_float32_0[0];
        fold1_0 = lanes_float32_1[0];
        __syncthreads();
        if (thread == 0) {
            operand1[offset1 + i0 + i1 * stride1_1] = fold0_0;
            operand2[offset2 + i0 + i1 * stride2_1] = fold1_0;
        }
    }
}
