extern "C" __global__ void __launch_bounds__(256) map_b4d1cf74b0b1(
    const float* operand0,
    const float* operand1,
    double given2,
    float* operand3,
    bool* operand4,
    long long size0, long long size1,
    long long offset0, long long offset1, long long offset3, long long offset4,
    long long stride0_1,
    long long stride3_0,
    long long stride4_0) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const float scalar2 = (float)given2;
    const long long points = size0 * size1;
    for (long long point = group * threads + thread; point < points; point += groups * threads) {
        const long long i1 = point % size1;
        const long long i0 = point / size1;
        const float v0 = operand0[offset0 + i0 + i1 * stride0_1];
        const float v1 = operand1[offset1 + i1];
        const float v2 = v0 * v1;
        const float v3 = v2 + scalar2;
        const float v4 = tanh(v3);
        const bool v5 = v0 > 0.0f;
        operand3[offset3 + i0 * stride3_0 + i1] = v4;
        operand4[offset4 + i0 * stride4_0 + i1] = v5;
    }
}
