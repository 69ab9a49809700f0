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
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v0 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v1 = fold0_0 + v0;
            fold0_0 = v1;
        }
        lanes_float32_0[thread] = fold0_0;
        __syncthreads();
        for (long long reach = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                const float v2 = lanes_float32_0[thread];
                const float v3 = lanes_float32_0[thread + reach];
                const float v4 = v2 + v3;
                lanes_float32_0[thread] = v4;
            }
            __syncthreads();
        }
        fold0_0 = lanes_float32_0[0];
        __syncthreads();
        const float v5 = fold0_0 / scalar3;
        float fold1_0 = 0.0f;
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v6 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v7 = v6 - v5;
            const float v8 = v7 * v7;
            const float v9 = fold1_0 + v8;
            fold1_0 = v9;
        }
        lanes_float32_0[thread] = fold1_0;
        __syncthreads();
        for (long long reach = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                const float v10 = lanes_float32_0[thread];
                const float v11 = lanes_float32_0[thread + reach];
                const float v12 = v10 + v11;
                lanes_float32_0[thread] = v12;
            }
            __syncthreads();
        }
        fold1_0 = lanes_float32_0[0];
        __syncthreads();
        const float v13 = fold1_0 / scalar3;
        const float v14 = v13 + scalar4;
        const float v15 = sqrt(v14);
        const float v16 = 1.0f / v15;
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v17 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v18 = v17 - v5;
            const float v19 = v18 * v16;
            const float v20 = operand1[offset1 + i1];
            const float v21 = v19 * v20;
            const float v22 = operand2[offset2 + i1];
            const float v23 = v21 + v22;
            operand5[offset5 + i0 * stride5_0 + i1] = v23;
        }
        if (thread == 0) {
            operand6[offset6 + i0] = v5;
            operand7[offset7 + i0] = v16;
        }
    }
}
