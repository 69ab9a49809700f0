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

extern "C" __global__ void __launch_bounds__(256) scatter_e7338ddb8456(
    const long long* operand0,
    const float* operand1,
    float* operand2,
    const int* operand3,
    long long given4,
    long long given5,
    long long* failure,
    long long size0, long long size1,
    long long offset0, long long offset1, long long offset2, long long offset3,
    long long stride1_1,
    long long line) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = blockDim.x;
    const long long scalar4 = given4;
    const long long scalar5 = given5;
    const long long rows = size0;
    const long long walked = size1;
    const long long points = rows * walked;
    for (long long point = group * threads + thread; point < points; point += groups * threads) {
        const long long row = point % rows;
        const long long number = point / rows;
        const long long i0 = row;
        long long own = -1;
        const long long own_point = operand3[offset3 + number];
        {
            const long long i1 = own_point;
            const long long v0 = operand0[offset0 + i1];
            const bool v1 = v0 >= 0LL && v0 < scalar4;
            if (!v1) { fail(failure, line, v0); }
            const long long v2 = (long long)((unsigned long long)v0 * (unsigned long long)scalar5);
            const long long v3 = v2;
            if (v1) { own = v3; }
        }
        if (number > 0) {
            long long before = -1;
            const long long before_point = operand3[offset3 + number - 1];
            {
                const long long i1 = before_point;
                const long long v4 = operand0[offset0 + i1];
                const bool v5 = v4 >= 0LL && v4 < scalar4;
                if (!v5) { fail(failure, line, v4); }
                const long long v6 = (long long)((unsigned long long)v4 * (unsigned long long)scalar5);
                const long long v7 = v6;
                if (v5) { before = v7; }
            }
            if (before == own) { own = -1; }
        }
        if (own >= 0) {
            float fold = operand2[offset2 + i0 + own];
            for (long long turn = number; turn < walked; turn += 1) {
                const long long next_point = operand3[offset3 + turn];
                {
                    const long long i1 = next_point;
                    const long long v8 = operand0[offset0 + i1];
                    const bool v9 = v8 >= 0LL && v8 < scalar4;
                    if (!v9) { fail(failure, line, v8); }
                    const long long v10 = (long long)((unsigned long long)v8 * (unsigned long long)scalar5);
                    const long long v11 = v10;
                    if (!(v9) || v11 != own) { break; }
                    const float v12 = operand1[offset1 + i0 + i1 * stride1_1];
                    const float v13 = fold + v12;
                    fold = v13;
                }
            }
            operand2[offset2 + i0 + own] = fold;
        }
    }
}
