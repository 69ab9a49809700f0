extern "C" __global__ void __launch_bounds__(256) map_92508de39e72(
    long long given1,
    int* operand2,
    float* operand3,
    long long size0,
    long long offset0, long long offset2, long long offset3) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long scalar1 = given1;
    const long long points = size0;
    for (long long point = group * threads + thread; point < points; point += groups * threads) {
        const long long i0 = point;
        const unsigned int v0 = (unsigned int)scalar1;
        const unsigned int v1 = v0 + 2654435769u;
        const long long v2 = offset0 + i0;
        const unsigned int v3 = (unsigned int)v2;
        const unsigned int v4 = __umulhi(v3, 3528531795u);
        const unsigned int v5 = v3 ^ v0;
        const unsigned int v6 = v4 ^ v5;
        const unsigned int v7 = v6 ^ v0;
        const unsigned int v8 = __umulhi(v7, 3528531795u);
        const unsigned int v9 = v3 * 3528531795u;
        const unsigned int v10 = v8 ^ v9;
        const unsigned int v11 = v10 ^ v1;
        const unsigned int v12 = v7 * 3528531795u;
        const unsigned int v13 = v11 ^ v12;
        const int v14 = (int)v13;
        const unsigned int v15 = (unsigned int)v11 >> (8u & 31);
        const float v16 = (float)v15;
        const float v17 = v16 * 5.9604645e-08f;
        operand2[offset2 + i0] = v14;
        operand3[offset3 + i0] = v17;
    }
}
