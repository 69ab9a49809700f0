extern "C" __global__ void __launch_bounds__(256) row_17fee44128bd(
    const float* operand0,
    float* operand1,
    long long size0, long long size1,
    long long offset0, long long offset1,
    long long stride0_0,
    long long stride1_0) {
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
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
        lanes_float32_0[thread] = fold0_0;
        __syncthreads();
        for (long long reach = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                const float v5 = lanes_float32_0[thread];
                const float v6 = lanes_float32_0[thread + reach];
                const bool v7 = v5 > v6;
                const bool v8 = isnan(v5);
                const bool v9 = v7 | v8;
                const float v10 = v9 ? v5 : v6;
                lanes_float32_0[thread] = v10;
            }
            __syncthreads();
        }
        fold0_0 = lanes_float32_0[0];
        __syncthreads();
        float fold1_0 = 0.0f;
        float fold1_0_block = 0.0f;
        long long turns1 = 0;
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v11 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v12 = v11 - fold0_0;
            const float v13 = exp(v12);
            const float v14 = fold1_0_block + v13;
            fold1_0_block = v14;
            turns1 += 1;
            if (turns1 == 64) {
                const float v15 = fold1_0 + fold1_0_block;
                fold1_0 = v15;
                fold1_0_block = 0.0f;
                turns1 = 0;
            }
        }
        const float v16 = fold1_0 + fold1_0_block;
        fold1_0 = v16;
        lanes_float32_0[thread] = fold1_0;
        __syncthreads();
        for (long long reach = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                const float v17 = lanes_float32_0[thread];
                const float v18 = lanes_float32_0[thread + reach];
                const float v19 = v17 + v18;
                lanes_float32_0[thread] = v19;
            }
            __syncthreads();
        }
        fold1_0 = lanes_float32_0[0];
        __syncthreads();
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v20 = operand0[offset0 + i0 * stride0_0 + i1];
            const float v21 = v20 - fold0_0;
            const float v22 = exp(v21);
            const float v23 = v22 / fold1_0;
            operand1[offset1 + i0 * stride1_0 + i1] = v23;
        }
    }
}
