extern "C" __global__ void __launch_bounds__(256) row_081da45b9f40(
    const float* operand0,
    float* operand1,
    long long* operand2,
    long long size0, long long size1,
    long long offset0, long long offset1, long long offset2,
    long long stride0_0) {
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    __shared__ float lanes_float32_0[256];
    __shared__ long long lanes_int64_0[256];
    const long long points = size0;
    const long long elements = size1;
    for (long long point = group; point < points; point += groups) {
        const long long i0 = point;
        float fold0_0 = __uint_as_float(0xff800000u);
        long long fold0_1 = 9223372036854775807LL;
        for (long long element = thread; element < elements; element += threads) {
            const long long i1 = element;
            const float v0 = operand0[offset0 + i0 * stride0_0 + i1];
            const bool v1 = fold0_0 > v0;
            const bool v2 = fold0_0 == v0;
            const bool v3 = fold0_1 < i1;
            const bool v4 = v2 & v3;
            const bool v5 = v1 | v4;
            const float v6 = v5 ? fold0_0 : v0;
            const long long v7 = v5 ? fold0_1 : i1;
            fold0_0 = v6;
            fold0_1 = v7;
        }
        lanes_float32_0[thread] = fold0_0;
        lanes_int64_0[thread] = fold0_1;
        __syncthreads();
        for (long long reach = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                const float v8 = lanes_float32_0[thread];
                const long long v9 = lanes_int64_0[thread];
                const float v10 = lanes_float32_0[thread + reach];
                const long long v11 = lanes_int64_0[thread + reach];
                const bool v12 = v8 > v10;
                const bool v13 = v8 == v10;
                const bool v14 = v9 < v11;
                const bool v15 = v13 & v14;
                const bool v16 = v12 | v15;
                const float v17 = v16 ? v8 : v10;
                const long long v18 = v16 ? v9 : v11;
                lanes_float32_0[thread] = v17;
                lanes_int64_0[thread] = v18;
            }
            __syncthreads();
        }
        fold0_0 = lanes_float32_0[0];
        fold0_1 = lanes_int64_0[0];
        __syncthreads();
        if (thread == 0) {
            operand1[offset1 + i0] = fold0_0;
            operand2[offset2 + i0] = fold0_1;
        }
    }
}
