extern "C" __global__ void __launch_bounds__(256) row_6c9cbc6cbfe7(
    const float* operand0,
    const float* operand1,
    const float* operand2,
    double given3,
    double given4,
    float* operand5,
    float* operand6,
    float* operand7,
    long long size0, long long size1,
    long long offset0, long long offset1, long long offset2, long long offset5, long long offset6, long long offset7,
    long long stride0_0,
    long long stride5_0) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    __shared__ float lanes_float32_0[256];
    const float scalar3 = (float)given3;
    const float scalar4 = (float)given4;
    const long long points = size0;
    const long long elements = size1;
    for (long long point = group; point < points; point += groups) {
        const long long i0 = point;
        float fold0_0 = 0.0f;
        float fold0_0_block = 0.0f;
        long long turns0 = 0;
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v0 = operand0[offset0 + i0 * stride0_0 + i1];
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
        for (long long reach = 16; reach >= 1; reach = reach / 2) {
            const float v4 = __shfl_xor_sync(0xffffffffu, fold0_0, reach);
            const float v5 = fold0_0 + v4;
            fold0_0 = v5;
        }
        if (threads > 32) {
            if (thread % 32 < 1) {
                lanes_float32_0[thread / 32 * 1 + thread % 32] = fold0_0;
            }
            __syncthreads();
            fold0_0 = lanes_float32_0[0];
            for (long long warp = 1; warp < threads / 32; warp += 1) {
                const float v6 = lanes_float32_0[warp];
                const float v7 = fold0_0 + v6;
                fold0_0 = v7;
            }
            __syncthreads();
        }
        const float v8 = fold0_0 / scalar3;
        float fold1_0 = 0.0f;
        float fold1_0_block = 0.0f;
        long long turns1 = 0;
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v9 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v10 = v9 - v8;
            const float v11 = v10 * v10;
            const float v12 = fold1_0_block + v11;
            fold1_0_block = v12;
            turns1 += 1;
            if (turns1 == 64) {
                const float v13 = fold1_0 + fold1_0_block;
                fold1_0 = v13;
                fold1_0_block = 0.0f;
                turns1 = 0;
            }
        }
        const float v14 = fold1_0 + fold1_0_block;
        fold1_0 = v14;
        for (long long reach = 16; reach >= 1; reach = reach / 2) {
            const float v15 = __shfl_xor_sync(0xffffffffu, fold1_0, reach);
            const float v16 = fold1_0 + v15;
            fold1_0 = v16;
        }
        if (threads > 32) {
            if (thread % 32 < 1) {
                lanes_float32_0[thread / 32 * 1 + thread % 32] = fold1_0;
            }
            __syncthreads();
            fold1_0 = lanes_float32_0[0];
            for (long long warp = 1; warp < threads / 32; warp += 1) {
                const float v17 = lanes_float32_0[warp];
                const float v18 = fold1_0 + v17;
                fold1_0 = v18;
            }
            __syncthreads();
        }
        const float v19 = fold1_0 / scalar3;
        const float v20 = v19 + scalar4;
        const float v21 = sqrt(v20);
        const float v22 = 1.0f / v21;
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v23 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v24 = v23 - v8;
            const float v25 = v24 * v22;
            const float v26 = operand1[offset1 + i1];
            const float v27 = v25 * v26;
            const float v28 = operand2[offset2 + i1];
            const float v29 = v27 + v28;
            operand5[offset5 + i0 * stride5_0 + i1] = v29;
        }
        __syncthreads();
        if (thread == 0) {
            operand6[offset6 + i0] = v8;
            operand7[offset7 + i0] = v22;
        }
    }
}
