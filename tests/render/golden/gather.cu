__device__ void fail(long long* failure, long long line, long long index) {
    const unsigned long long mark = line + 1;
    if (atomicCAS((unsigned long long*)failure, 0ULL, mark) != 0) return;
    failure[1] = index;
    failure[3] = failure[4];
    volatile long long* seen = (long long*)failure[2];
    if (!seen) return;
    seen[1] = index;
    __threadfence_system();
    seen[0] = mark;
}

extern "C" __global__ void __launch_bounds__(256) map_4128a54fa739(
    const float* operand0,
    const long long* operand1,
    float* operand2,
    long long* failure,
    long long size0, long long size1,
    long long offset0, long long offset1, long long offset2,
    long long stride2_0,
    long long line) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long points = size0 * size1;
    for (long long point = group * threads + thread; point < points; point += groups * threads) {
        const long long i1 = point % size1;
        const long long i0 = point / size1;
        const long long v0 = operand1[offset1 + i0];
        const bool v1 = v0 >= 0LL && v0 < 11LL;
        if (!v1) { fail(failure, line, v0); }
        const long long v2 = (long long)((unsigned long long)v0 * (unsigned long long)30LL);
        const float v3 = v1 ? operand0[offset0 + i1 + v2] : 0.0f;
        if (v1) { operand2[offset2 + i0 * stride2_0 + i1] = v3; }
    }
}
