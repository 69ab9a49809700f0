extern "C" __global__ void __launch_bounds__(256) row_081da45b9f40(
    const float* operand0,
    float* operand1,
    long long* operand2,
    long long size0, long long size1,
    long long offset0, long long offset1, long long offset2,
    long long stride0_0) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
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
        for (long long reach = 16; reach >= 1; reach = reach / 2) {
            const float v8 = __shfl_xor_sync(0xffffffffu, fold0_0, reach);
            const long long v9 = __shfl_xor_sync(0xffffffffu, fold0_1, reach);
            const bool v10 = fold0_0 > v8;
            const bool v11 = fold0_0 == v8;
            const bool v12 = fold0_1 < v9;
            const bool v13 = v11 & v12;
            const bool v14 = v10 | v13;
            const float v15 = v14 ? fold0_0 : v8;
            const long long v16 = v14 ? fold0_1 : v9;
            fold0_0 = v15;
            fold0_1 = v16;
        }
        if (threads > 32) {
            if (thread % 32 < 1) {
                lanes_float32_0[thread / 32 * 1 + thread % 32] = fold0_0;
                lanes_int64_0[thread / 32 * 1 + thread % 32] = fold0_1;
            }
            __syncthreads();
            fold0_0 = lanes_float32_0[0];
            fold0_1 = lanes_int64_0[0];
            for (long long warp = 1; warp < threads / 32; warp += 1) {
                const float v17 = lanes_float32_0[warp];
                const long long v18 = lanes_int64_0[warp];
                const bool v19 = fold0_0 > v17;
                const bool v20 = fold0_0 == v17;
                const bool v21 = fold0_1 < v18;
                const bool v22 = v20 & v21;
                const bool v23 = v19 | v22;
                const float v24 = v23 ? fold0_0 : v17;
                const long long v25 = v23 ? fold0_1 : v18;
                fold0_0 = v24;
                fold0_1 = v25;
            }
            __syncthreads();
        }
        if (thread == 0) {
            operand1[offset1 + i0] = fold0_0;
            operand2[offset2 + i0] = fold0_1;
        }
    }
}
