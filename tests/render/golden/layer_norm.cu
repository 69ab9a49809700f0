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
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
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
        lanes_float32_0[thread] = fold0_0;
        __syncthreads();
        for (long long reach = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                const float v4 = lanes_float32_0[thread];
                const float v5 = lanes_float32_0[thread + reach];
                const float v6 = v4 + v5;
                lanes_float32_0[thread] = v6;
            }
            __syncthreads();
        }
        fold0_0 = lanes_float32_0[0];
        __syncthreads();
        const float v7 = fold0_0 / scalar3;
        float fold1_0 = 0.0f;
        float fold1_0_block = 0.0f;
        long long turns1 = 0;
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v8 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v9 = v8 - v7;
            const float v10 = v9 * v9;
            const float v11 = fold1_0_block + v10;
            fold1_0_block = v11;
            turns1 += 1;
            if (turns1 == 64) {
                const float v12 = fold1_0 + fold1_0_block;
                fold1_0 = v12;
                fold1_0_block = 0.0f;
                turns1 = 0;
            }
        }
        const float v13 = fold1_0 + fold1_0_block;
        fold1_0 = v13;
        lanes_float32_0[thread] = fold1_0;
        __syncthreads();
        for (long long reach = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                const float v14 = lanes_float32_0[thread];
                const float v15 = lanes_float32_0[thread + reach];
                const float v16 = v14 + v15;
                lanes_float32_0[thread] = v16;
            }
            __syncthreads();
        }
        fold1_0 = lanes_float32_0[0];
        __syncthreads();
        const float v17 = fold1_0 / scalar3;
        const float v18 = v17 + scalar4;
        const float v19 = sqrt(v18);
        const float v20 = 1.0f / v19;
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v21 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v22 = v21 - v7;
            const float v23 = v22 * v20;
            const float v24 = operand1[offset1 + i1];
            const float v25 = v23 * v24;
            const float v26 = operand2[offset2 + i1];
            const float v27 = v25 + v26;
            operand5[offset5 + i0 * stride5_0 + i1] = v27;
        }
        __syncthreads();
        if (thread == 0) {
            operand6[offset6 + i0] = v7;
            operand7[offset7 + i0] = v20;
        }
    }
}
