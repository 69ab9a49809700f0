extern "C" __global__ void __launch_bounds__(256) row_f649c314a993(
    const float* operand0,
    float* operand1,
    float* operand2,
    long long size0, long long size1, long long size2,
    long long offset0, long long offset1, long long offset2,
    long long stride0_0,
    long long stride1_1,
    long long stride2_1) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
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
        for (long long reach = 16; reach >= 1; reach = reach / 2) {
            const float v16 = __shfl_xor_sync(0xffffffffu, fold0_0, reach);
            const float v17 = fold0_0 + v16;
            fold0_0 = v17;
            const float v18 = __shfl_xor_sync(0xffffffffu, fold1_0, reach);
            const bool v19 = fold1_0 > v18;
            const bool v20 = isnan(fold1_0);
            const bool v21 = v19 | v20;
            const float v22 = v21 ? fold1_0 : v18;
            fold1_0 = v22;
        }
        if (threads > 32) {
            if (thread % 32 < 1) {
                lanes_float32_0[thread / 32 * 1 + thread % 32] = fold0_0;
                lanes_float32_1[thread / 32 * 1 + thread % 32] = fold1_0;
            }
            __syncthreads();
            fold0_0 = lanes_float32_0[0];
            fold1_0 = lanes_float32_1[0];
            for (long long warp = 1; warp < threads / 32; warp += 1) {
                const float v23 = lanes_float32_0[warp];
                const float v24 = fold0_0 + v23;
                fold0_0 = v24;
                const float v25 = lanes_float32_1[warp];
                const bool v26 = fold1_0 > v25;
                const bool v27 = isnan(fold1_0);
                const bool v28 = v26 | v27;
                const float v29 = v28 ? fold1_0 : v25;
                fold1_0 = v29;
            }
            __syncthreads();
        }
        if (thread == 0) {
            operand1[offset1 + i0 + i1 * stride1_1] = fold0_0;
            operand2[offset2 + i0 + i1 * stride2_1] = fold1_0;
        }
    }
}
