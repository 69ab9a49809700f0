__device__ float from_float16(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
__device__ unsigned short to_float16(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
__device__ float round_float16(float x) { return from_float16(to_float16(x)); }

extern "C" __global__ void __launch_bounds__(256) contraction_float16_float32(
    const unsigned short* operand0,
    const unsigned short* operand1,
    unsigned short* operand2,
    long long size0, long long size1, long long size2, long long size3, long long size4,
    long long offset0, long long offset1, long long offset2,
    long long stride0_0, long long stride0_1, long long stride0_2, long long stride0_3,
    long long stride1_0, long long stride1_1, long long stride1_2, long long stride1_3,
    long long stride2_0, long long stride2_1, long long stride2_2, long long stride2_3) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = 256;
    __shared__ float a_tile[1040];
    __shared__ float b_tile[1024];
    const long long row_tiles = (size2 + 63) / 64;
    const long long column_tiles = (size3 + 63) / 64;
    const long long tiles = size0 * size1 * row_tiles * column_tiles;
    const long long row = thread / 16;
    const long long column = thread % 16;
    for (long long tile = group; tile < tiles; tile += groups) {
        const long long batch = tile / (row_tiles * column_tiles);
        const long long batch0 = batch / size1;
        const long long batch1 = batch % size1;
        const long long first_row = tile / column_tiles % row_tiles * 64;
        const long long first_column = tile % column_tiles * 64;
        float sum0_0 = 0.0f;
        float sum0_1 = 0.0f;
        float sum0_2 = 0.0f;
        float sum0_3 = 0.0f;
        float sum1_0 = 0.0f;
        float sum1_1 = 0.0f;
        float sum1_2 = 0.0f;
        float sum1_3 = 0.0f;
        float sum2_0 = 0.0f;
        float sum2_1 = 0.0f;
        float sum2_2 = 0.0f;
        float sum2_3 = 0.0f;
        float sum3_0 = 0.0f;
        float sum3_1 = 0.0f;
        float sum3_2 = 0.0f;
        float sum3_3 = 0.0f;
        for (long long panel = 0; panel < size4; panel += 256) {
            float part0_0 = 0.0f;
            float part0_1 = 0.0f;
            float part0_2 = 0.0f;
            float part0_3 = 0.0f;
            float part1_0 = 0.0f;
            float part1_1 = 0.0f;
            float part1_2 = 0.0f;
            float part1_3 = 0.0f;
            float part2_0 = 0.0f;
            float part2_1 = 0.0f;
            float part2_2 = 0.0f;
            float part2_3 = 0.0f;
            float part3_0 = 0.0f;
            float part3_1 = 0.0f;
            float part3_2 = 0.0f;
            float part3_3 = 0.0f;
            const long long end = min(panel + 256, size4);
            for (long long start = panel; start < end; start += 16) {
                for (long long at = thread; at < 1024; at += threads) {
                    const long long free = at / 16;
                    const long long deep = at % 16;
                    const float v0 = first_row + free < size2 && start + deep < size4 ? from_float16(operand0[offset0 + batch0 * stride0_0 + batch1 * stride0_1 + (first_row + free) * stride0_2 + (start + deep) * stride0_3]) : 0.0f;
                    a_tile[deep * 65 + free] = v0;
                }
                for (long long at = thread; at < 1024; at += threads) {
                    const long long free = at % 64;
                    const long long deep = at / 64;
                    const float v1 = first_column + free < size3 && start + deep < size4 ? from_float16(operand1[offset1 + batch0 * stride1_0 + batch1 * stride1_1 + (first_column + free) * stride1_3 + (start + deep) * stride1_2]) : 0.0f;
                    b_tile[deep * 64 + free] = v1;
                }
                __syncthreads();
                for (long long k = 0; k < 16; k += 1) {
                    const float a0 = a_tile[k * 65 + row];
                    const float b0 = b_tile[k * 64 + column];
                    const float a1 = a_tile[k * 65 + row + 16];
                    const float b1 = b_tile[k * 64 + column + 16];
                    const float a2 = a_tile[k * 65 + row + 32];
                    const float b2 = b_tile[k * 64 + column + 32];
                    const float a3 = a_tile[k * 65 + row + 48];
                    const float b3 = b_tile[k * 64 + column + 48];
                    part0_0 = fma(a0, b0, part0_0);
                    part0_1 = fma(a0, b1, part0_1);
                    part0_2 = fma(a0, b2, part0_2);
                    part0_3 = fma(a0, b3, part0_3);
                    part1_0 = fma(a1, b0, part1_0);
                    part1_1 = fma(a1, b1, part1_1);
                    part1_2 = fma(a1, b2, part1_2);
                    part1_3 = fma(a1, b3, part1_3);
                    part2_0 = fma(a2, b0, part2_0);
                    part2_1 = fma(a2, b1, part2_1);
                    part2_2 = fma(a2, b2, part2_2);
                    part2_3 = fma(a2, b3, part2_3);
                    part3_0 = fma(a3, b0, part3_0);
                    part3_1 = fma(a3, b1, part3_1);
                    part3_2 = fma(a3, b2, part3_2);
                    part3_3 = fma(a3, b3, part3_3);
                }
                __syncthreads();
            }
            sum0_0 = sum0_0 + part0_0;
            sum0_1 = sum0_1 + part0_1;
            sum0_2 = sum0_2 + part0_2;
            sum0_3 = sum0_3 + part0_3;
            sum1_0 = sum1_0 + part1_0;
            sum1_1 = sum1_1 + part1_1;
            sum1_2 = sum1_2 + part1_2;
            sum1_3 = sum1_3 + part1_3;
            sum2_0 = sum2_0 + part2_0;
            sum2_1 = sum2_1 + part2_1;
            sum2_2 = sum2_2 + part2_2;
            sum2_3 = sum2_3 + part2_3;
            sum3_0 = sum3_0 + part3_0;
            sum3_1 = sum3_1 + part3_1;
            sum3_2 = sum3_2 + part3_2;
            sum3_3 = sum3_3 + part3_3;
        }
        const long long row0 = first_row + row;
        const long long column0 = first_column + column;
        const long long row1 = first_row + row + 16;
        const long long column1 = first_column + column + 16;
        const long long row2 = first_row + row + 32;
        const long long column2 = first_column + column + 32;
        const long long row3 = first_row + row + 48;
        const long long column3 = first_column + column + 48;
        if (row0 < size2 && column0 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row0 * stride2_2 + column0 * stride2_3] = to_float16(round_float16(sum0_0));
        }
        if (row0 < size2 && column1 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row0 * stride2_2 + column1 * stride2_3] = to_float16(round_float16(sum0_1));
        }
        if (row0 < size2 && column2 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row0 * stride2_2 + column2 * stride2_3] = to_float16(round_float16(sum0_2));
        }
        if (row0 < size2 && column3 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row0 * stride2_2 + column3 * stride2_3] = to_float16(round_float16(sum0_3));
        }
        if (row1 < size2 && column0 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row1 * stride2_2 + column0 * stride2_3] = to_float16(round_float16(sum1_0));
        }
        if (row1 < size2 && column1 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row1 * stride2_2 + column1 * stride2_3] = to_float16(round_float16(sum1_1));
        }
        if (row1 < size2 && column2 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row1 * stride2_2 + column2 * stride2_3] = to_float16(round_float16(sum1_2));
        }
        if (row1 < size2 && column3 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row1 * stride2_2 + column3 * stride2_3] = to_float16(round_float16(sum1_3));
        }
        if (row2 < size2 && column0 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row2 * stride2_2 + column0 * stride2_3] = to_float16(round_float16(sum2_0));
        }
        if (row2 < size2 && column1 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row2 * stride2_2 + column1 * stride2_3] = to_float16(round_float16(sum2_1));
        }
        if (row2 < size2 && column2 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row2 * stride2_2 + column2 * stride2_3] = to_float16(round_float16(sum2_2));
        }
        if (row2 < size2 && column3 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row2 * stride2_2 + column3 * stride2_3] = to_float16(round_float16(sum2_3));
        }
        if (row3 < size2 && column0 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row3 * stride2_2 + column0 * stride2_3] = to_float16(round_float16(sum3_0));
        }
        if (row3 < size2 && column1 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row3 * stride2_2 + column1 * stride2_3] = to_float16(round_float16(sum3_1));
        }
        if (row3 < size2 && column2 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row3 * stride2_2 + column2 * stride2_3] = to_float16(round_float16(sum3_2));
        }
        if (row3 < size2 && column3 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row3 * stride2_2 + column3 * stride2_3] = to_float16(round_float16(sum3_3));
        }
    }
}
