extern "C" __global__ void __launch_bounds__(256) merge_16d0be614c91(
    const int* operand0,
    const int* operand1,
    long long* operand2,
    long long given3,
    long long given4,
    long long size0, long long size1, long long size2,
    long long offset0, long long offset1, long long offset2,
    long long stride0_0, long long stride0_1,
    long long stride1_0, long long stride1_1,
    long long stride2_0) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long scalar3 = given3;
    const long long scalar4 = given4;
    const long long points = size0 * size1 * size2;
    for (long long point = group * threads + thread; point < points; point += groups * threads) {
        const long long i2 = point % size2;
        const long long i1 = point / size2 % size1;
        const long long i0 = point / size2 / size1;
        const long long length = scalar3;
        const long long first = i2 / (2 * length) * (2 * length);
        const long long middle = min(first + length, size2);
        const int v0 = operand0[offset0 + i0 * stride0_0 + i1 * stride0_1 + i2];
        const int v1 = operand1[offset1 + i0 * stride1_0 + i1 * stride1_1 + i2];
        const bool v2 = i2 >= middle;
        long long low = middle;
        long long high = min(middle + length, size2);
        if (v2) {
            low = first;
            high = middle;
        }
        while (low < high) {
            const long long half = low + (high - low) / 2;
            {
                const long long i2 = half;
                const int v3 = operand0[offset0 + i0 * stride0_0 + i1 * stride0_1 + i2];
                if (v3 < v0 || (v3 == v0 && v2)) {
                    low = half + 1;
                }
                else {
                    high = half;
                }
            }
        }
        const long long rank = i2 + low - middle;
        {
            const long long i2 = rank;
            if (rank < scalar4) { operand2[offset2 + i0 * stride2_0 + i1 + i2] = (long long)v1; }
        }
    }
}
