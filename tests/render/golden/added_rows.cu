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

extern "C" __global__ void __launch_bounds__(256) scatter_3cd3b881a5cf(
    const long long* operand0,
    const float* operand1,
    float* operand2,
    long long given3,
    long long given4,
    long long* failure,
    long long size0, long long size1,
    long long offset0, long long offset1, long long offset2,
    long long stride1_1,
    long long line) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long scalar3 = given3;
    const long long scalar4 = given4;
    const long long points = size0;
    for (long long point = group * threads + thread; point < points; point += groups * threads) {
        const long long i0 = point;
        for (long long i1 = 0; i1 < size1; i1 += 1) {
            const long long v0 = operand0[offset0 + i1];
            const bool v1 = v0 >= 0LL && v0 < scalar3;
            if (!v1) { fail(failure, line, v0); }
            const long long v2 = (long long)((unsigned long long)v0 * (unsigned long long)scalar4);
            const float v3 = operand1[offset1 + i0 + i1 * stride1_1];
            const float v4 = v1 ? operand2[offset2 + i0 + v2] : 0.0f;
            const float v5 = v4 + v3;
            if (v1) { operand2[offset2 + i0 + v2] = v5; }
        }
    }
}
