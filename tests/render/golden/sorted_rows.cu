extern "C" __global__ void __launch_bounds__(256) sort_71b561402bb1(
    const float* operand0,
    long long* operand1,
    long long given2,
    long long size0, long long size1,
    long long offset0, long long offset1,
    long long stride0_1,
    long long stride1_1) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    __shared__ int keys[1024];
    __shared__ int positions[1024];
    const long long scalar2 = given2;
    const long long points = size0;
    for (long long point = group; point < points; point += groups) {
        const long long i0 = point;
        const long long count = size1;
        long long width = 1;
        while (width < count) {
            width = width * 2;
        }
        for (long long element = thread; element < width; element += threads) {
            int key = 2147483647;
            if (element < count) {
                const long long i1 = element;
                const float v0 = operand0[offset0 + i0 + i1 * stride0_1];
                const bool v1 = isnan(v0);
                const int v2 = (int)__float_as_uint(v0);
                const bool v3 = v2 < 0;
                const int v4 = (int)((unsigned int)(-2147483647 - 1) - (unsigned int)v2);
                const int v5 = v3 ? v4 : v2;
                const int v6 = v1 ? 2147483647 : v5;
                const int v7 = v6 ^ (-1);
                key = v7;
            }
            keys[element] = key;
            positions[element] = element;
        }
        __syncthreads();
        for (long long run = 2; run <= width; run = run * 2) {
            for (long long reach = run / 2; reach > 0; reach = reach / 2) {
                for (long long pair = thread; pair < width / 2; pair += threads) {
                    const long long low = 2 * pair - (pair & (reach - 1));
                    const long long high = low + reach;
                    const int v8 = keys[low];
                    const int v9 = keys[high];
                    const int v10 = positions[low];
                    const int v11 = positions[high];
                    const bool v12 = v8 > v9 || (v8 == v9 && v10 > v11);
                    const bool v13 = (low & run) == 0;
                    if (v12 == v13) {
                        keys[low] = v9;
                        keys[high] = v8;
                        positions[low] = v11;
                        positions[high] = v10;
                    }
                }
                __syncthreads();
            }
        }
        for (long long element = thread; element < count; element += threads) {
            const long long i1 = element;
            const int v14 = positions[element];
            const long long v15 = (long long)v14;
            if (element < scalar2) { operand1[offset1 + i0 + i1 * stride1_1] = v15; }
        }
        __syncthreads();
    }
}
