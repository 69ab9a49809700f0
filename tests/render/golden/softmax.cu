extern "C" __global__ void __launch_bounds__(256) row_17fee44128bd(
    const float* operand0,
    float* operand1,
    long long size0, long long size1,
    long long offset0, long long offset1,
    long long stride0_0,
    long long stride1_0) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    __shared__ float lanes_float32_0[256];
    const long long points = size0;
    const long long elements = size1;
    for (long long point = group; point < points; point += groups) {
        const long long i0 = point;
        float fold0_0 = __uint_as_float(0xff800000u);
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v0 = operand0[offset0 + i0 * stride0_0 + i1];
            const bool v1 = fold0_0 > v0;
            const bool v2 = isnan(fold0_0);
            const bool v3 = v1 | v2;
            const float v4 = v3 ? fold0_0 : v0;
            fold0_0 = v4;
        }
        for (long long reach = 16; reach >= 1; reach = reach / 2) {
            const float v5 = __shfl_xor_sync(0xffffffffu, fold0_0, reach);
            const bool v6 = fold0_0 > v5;
            const bool v7 = isnan(fold0_0);
            const bool v8 = v6 | v7;
            const float v9 = v8 ? fold0_0 : v5;
            fold0_0 = v9;
        }
        if (threads > 32) {
            if (thread % 32 < 1) {
                lanes_float32_0[thread / 32 * 1 + thread % 32] = fold0_0;
            }
            __syncthreads();
            fold0_0 = lanes_float32_0[0];
            for (long long warp = 1; warp < threads / 32; warp += 1) {
                const float v10 = lanes_float32_0[warp];
                const bool v11 = fold0_0 > v10;
                const bool v12 = isnan(fold0_0);
                const bool v13 = v11 | v12;
                const float v14 = v13 ? fold0_0 : v10;
                fold0_0 = v14;
            }
            __syncthreads();
        }
        float fold1_0 = 0.0f;
        float fold1_0_block = 0.0f;
        long long turns1 = 0;
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v15 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v16 = v15 - fold0_0;
            const float v17 = exp(v16);
            const float v18 = fold1_0_block + v17;
            fold1_0_block = v18;
            turns1 += 1;
            if (turns1 == 64) {
                const float v19 = fold1_0 + fold1_0_block;
                fold1_0 = v19;
                fold1_0_block = 0.0f;
                turns1 = 0;
            }
        }
        const float v20 = fold1_0 + fold1_0_block;
        fold1_0 = v20;
        for (long long reach = 16; reach >= 1; reach = reach / 2) {
            const float v21 = __shfl_xor_sync(0xffffffffu, fold1_0, reach);
            const float v22 = fold1_0 + v21;
            fold1_0 = v22;
        }
        if (threads > 32) {
            if (thread % 32 < 1) {
                lanes_float32_0[thread / 32 * 1 + thread % 32] = fold1_0;
            }
            __syncthreads();
            fold1_0 = lanes_float32_0[0];
            for (long long warp = 1; warp < threads / 32; warp += 1) {
                const float v23 = lanes_float32_0[warp];
                const float v24 = fold1_0 + v23;
                fold1_0 = v24;
            }
            __syncthreads();
        }
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v25 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v26 = v25 - fold0_0;
            const float v27 = exp(v26);
            const float v28 = v27 / fold1_0;
            operand1[offset1 + i0 * stride1_0 + i1] = v28;
        }
    }
}
