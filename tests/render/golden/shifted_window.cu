extern "C" __global__ void __launch_bounds__(256) map_f132c0c63b00(
    const float* operand0,
    long long given1,
    float* operand2,
    long long size0,
    long long offset0, long long offset2) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long scalar1 = given1;
    const long long points = size0;
    for (long long point = group * threads + thread; point < points; point += groups * threads) {
        const long long i0 = point;
        const bool v0 = i0 > 0LL;
        const bool v1 = i0 < scalar1;
        const float v2 = v0 ? operand0[offset0 + i0 + (-1LL)] : 0.0f;
        const float v3 = v1 ? operand0[offset0 + i0 + 1LL] : 0.0f;
        const float v4 = v2 - v3;
        operand2[offset2 + i0] = v4;
    }
}
