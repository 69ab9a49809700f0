extern "C" __global__ void __launch_bounds__(256) attention_query_causal_float32_float32(
    const float* operand0,
    const float* operand1,
    const float* operand2,
    const float* operand3,
    const float* operand4,
    const float* operand5,
    float* operand6,
    double given7,
    long long size0, long long size1, long long size2, long long size3, long long size4, long long size5,
    long long offset0, long long offset1, long long offset2, long long offset3, long long offset4, long long offset5, long long offset6,
    long long stride0_0, long long stride0_1, long long stride0_2, long long stride0_3,
    long long stride1_0, long long stride1_1, long long stride1_2, long long stride1_3,
    long long stride2_0, long long stride2_1, long long stride2_2, long long stride2_3,
    long long stride3_0, long long stride3_1, long long stride3_2, long long stride3_3,
    long long stride4_0, long long stride4_1, long long stride4_2,
    long long stride5_0, long long stride5_1, long long stride5_2,
    long long stride6_0, long long stride6_1, long long stride6_2, long long stride6_3) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = 256;
    __shared__ float left_tile[1056];
    __shared__ float right_tile[2080];
    __shared__ float weights[2080];
    const float scalar7 = (float)given7;
    const long long row_tiles = (size2 + 31) / 32;
    const long long column_tiles = (size4 + 63) / 64;
    const long long tiles = size0 * size1 * row_tiles * column_tiles;
    const long long row = thread / 16;
    const long long column = thread % 16;
    for (long long tile = group; tile < tiles; tile += groups) {
        const long long batch = tile / (row_tiles * column_tiles);
        const long long batch0 = batch / size1;
        const long long batch1 = batch % size1;
        const long long first_row = tile / column_tiles % row_tiles * 32;
        const long long first_column = tile % column_tiles * 64;
        const long long row0 = first_row + row;
        const long long row1 = first_row + row + 16;
        const long long column0 = first_column + column;
        const long long column1 = first_column + column + 16;
        const long long column2 = first_column + column + 32;
        const long long column3 = first_column + column + 48;
        const float v0 = row0 < size2 ? operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + row0 * stride4_2] : 0.0f;
        const float v1 = row0 < size2 ? operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + row0 * stride5_2] : 0.0f;
        const float v2 = row1 < size2 ? operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + row1 * stride4_2] : 0.0f;
        const float v3 = row1 < size2 ? operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + row1 * stride5_2] : 0.0f;
        float sum0_0 = 0.0f;
        float sum0_1 = 0.0f;
        float sum0_2 = 0.0f;
        float sum0_3 = 0.0f;
        float sum1_0 = 0.0f;
        float sum1_1 = 0.0f;
        float sum1_2 = 0.0f;
        float sum1_3 = 0.0f;
        const long long last = min(size3, first_row + 32);
        for (long long start = 0; start < last; start += 64) {
            const long long swept0 = start + column;
            const long long swept1 = start + column + 16;
            const long long swept2 = start + column + 32;
            const long long swept3 = start + column + 48;
            float score0_0 = 0.0f;
            float score0_1 = 0.0f;
            float score0_2 = 0.0f;
            float score0_3 = 0.0f;
            float score1_0 = 0.0f;
            float score1_1 = 0.0f;
            float score1_2 = 0.0f;
            float score1_3 = 0.0f;
            for (long long deep_start = 0; deep_start < size4; deep_start += 32) {
                for (long long at = thread; at < 1024; at += threads) {
                    const long long free = at / 32;
                    const long long deep = at % 32;
                    const float v4 = first_row + free < size2 && deep_start + deep < size4 ? operand0[offset0 + batch0 * stride0_0 + batch1 * stride0_1 + (first_row + free) * stride0_2 + (deep_start + deep) * stride0_3] : 0.0f;
                    left_tile[deep * 33 + free] = v4;
                }
                for (long long at = thread; at < 2048; at += threads) {
                    const long long free = at / 32;
                    const long long deep = at % 32;
                    const float v5 = start + free < size3 && deep_start + deep < size4 ? operand1[offset1 + batch0 * stride1_0 + batch1 * stride1_1 + (start + free) * stride1_2 + (deep_start + deep) * stride1_3] : 0.0f;
                    right_tile[deep * 65 + free] = v5;
                }
                __syncthreads();
                for (long long k = 0; k < 32; k += 1) {
                    const float v6 = left_tile[k * 33 + row];
                    const float v7 = left_tile[k * 33 + row + 16];
                    const float v8 = right_tile[k * 65 + column];
                    const float v9 = right_tile[k * 65 + column + 16];
                    const float v10 = right_tile[k * 65 + column + 32];
                    const float v11 = right_tile[k * 65 + column + 48];
                    const float v12 = fma(v6, v8, score0_0);
                    score0_0 = v12;
                    const float v13 = fma(v6, v9, score0_1);
                    score0_1 = v13;
                    const float v14 = fma(v6, v10, score0_2);
                    score0_2 = v14;
                    const float v15 = fma(v6, v11, score0_3);
                    score0_3 = v15;
                    const float v16 = fma(v7, v8, score1_0);
                    score1_0 = v16;
                    const float v17 = fma(v7, v9, score1_1);
                    score1_1 = v17;
                    const float v18 = fma(v7, v10, score1_2);
                    score1_2 = v18;
                    const float v19 = fma(v7, v11, score1_3);
                    score1_3 = v19;
                }
                __syncthreads();
            }
            float pull0_0 = 0.0f;
            float pull0_1 = 0.0f;
            float pull0_2 = 0.0f;
            float pull0_3 = 0.0f;
            float pull1_0 = 0.0f;
            float pull1_1 = 0.0f;
            float pull1_2 = 0.0f;
            float pull1_3 = 0.0f;
            for (long long deep_start = 0; deep_start < size5; deep_start += 32) {
                for (long long at = thread; at < 1024; at += threads) {
                    const long long free = at / 32;
                    const long long deep = at % 32;
                    const float v20 = first_row + free < size2 && deep_start + deep < size5 ? operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + (first_row + free) * stride3_2 + (deep_start + deep) * stride3_3] : 0.0f;
                    left_tile[deep * 33 + free] = v20;
                }
                for (long long at = thread; at < 2048; at += threads) {
                    const long long free = at / 32;
                    const long long deep = at % 32;
                    const float v21 = start + free < size3 && deep_start + deep < size5 ? operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + (start + free) * stride2_2 + (deep_start + deep) * stride2_3] : 0.0f;
                    right_tile[deep * 65 + free] = v21;
                }
                __syncthreads();
                for (long long k = 0; k < 32; k += 1) {
                    const float v22 = left_tile[k * 33 + row];
                    const float v23 = left_tile[k * 33 + row + 16];
                    const float v24 = right_tile[k * 65 + column];
                    const float v25 = right_tile[k * 65 + column + 16];
                    const float v26 = right_tile[k * 65 + column + 32];
                    const float v27 = right_tile[k * 65 + column + 48];
                    const float v28 = fma(v22, v24, pull0_0);
                    pull0_0 = v28;
                    const float v29 = fma(v22, v25, pull0_1);
                    pull0_1 = v29;
                    const float v30 = fma(v22, v26, pull0_2);
                    pull0_2 = v30;
                    const float v31 = fma(v22, v27, pull0_3);
                    pull0_3 = v31;
                    const float v32 = fma(v23, v24, pull1_0);
                    pull1_0 = v32;
                    const float v33 = fma(v23, v25, pull1_1);
                    pull1_1 = v33;
                    const float v34 = fma(v23, v26, pull1_2);
                    pull1_2 = v34;
                    const float v35 = fma(v23, v27, pull1_3);
                    pull1_3 = v35;
                }
                __syncthreads();
            }
            const bool seen0_0 = row0 < size2 && swept0 < size3 && swept0 <= row0;
            const float v36 = score0_0 * scalar7;
            const float v37 = v36 - v0;
            const float v38 = exp(v37);
            const float v39 = seen0_0 ? v38 : 0.0f;
            const float v40 = pull0_0 - v1;
            const float v41 = v39 * v40;
            const float v42 = v41 * scalar7;
            const bool seen0_1 = row0 < size2 && swept1 < size3 && swept1 <= row0;
            const float v43 = score0_1 * scalar7;
            const float v44 = v43 - v0;
            const float v45 = exp(v44);
            const float v46 = seen0_1 ? v45 : 0.0f;
            const float v47 = pull0_1 - v1;
            const float v48 = v46 * v47;
            const float v49 = v48 * scalar7;
            const bool seen0_2 = row0 < size2 && swept2 < size3 && swept2 <= row0;
            const float v50 = score0_2 * scalar7;
            const float v51 = v50 - v0;
            const float v52 = exp(v51);
            const float v53 = seen0_2 ? v52 : 0.0f;
            const float v54 = pull0_2 - v1;
            const float v55 = v53 * v54;
            const float v56 = v55 * scalar7;
            const bool seen0_3 = row0 < size2 && swept3 < size3 && swept3 <= row0;
            const float v57 = score0_3 * scalar7;
            const float v58 = v57 - v0;
            const float v59 = exp(v58);
            const float v60 = seen0_3 ? v59 : 0.0f;
            const float v61 = pull0_3 - v1;
            const float v62 = v60 * v61;
            const float v63 = v62 * scalar7;
            const bool seen1_0 = row1 < size2 && swept0 < size3 && swept0 <= row1;
            const float v64 = score1_0 * scalar7;
            const float v65 = v64 - v2;
            const float v66 = exp(v65);
            const float v67 = seen1_0 ? v66 : 0.0f;
            const float v68 = pull1_0 - v3;
            const float v69 = v67 * v68;
            const float v70 = v69 * scalar7;
            const bool seen1_1 = row1 < size2 && swept1 < size3 && swept1 <= row1;
            const float v71 = score1_1 * scalar7;
            const float v72 = v71 - v2;
            const float v73 = exp(v72);
            const float v74 = seen1_1 ? v73 : 0.0f;
            const float v75 = pull1_1 - v3;
            const float v76 = v74 * v75;
            const float v77 = v76 * scalar7;
            const bool seen1_2 = row1 < size2 && swept2 < size3 && swept2 <= row1;
            const float v78 = score1_2 * scalar7;
            const float v79 = v78 - v2;
            const float v80 = exp(v79);
            const float v81 = seen1_2 ? v80 : 0.0f;
            const float v82 = pull1_2 - v3;
            const float v83 = v81 * v82;
            const float v84 = v83 * scalar7;
            const bool seen1_3 = row1 < size2 && swept3 < size3 && swept3 <= row1;
            const float v85 = score1_3 * scalar7;
            const float v86 = v85 - v2;
            const float v87 = exp(v86);
            const float v88 = seen1_3 ? v87 : 0.0f;
            const float v89 = pull1_3 - v3;
            const float v90 = v88 * v89;
            const float v91 = v90 * scalar7;
            __syncthreads();
            weights[(row) * 65 + column] = v42;
            weights[(row) * 65 + column + 16] = v49;
            weights[(row) * 65 + column + 32] = v56;
            weights[(row) * 65 + column + 48] = v63;
            weights[(row + 16) * 65 + column] = v70;
            weights[(row + 16) * 65 + column + 16] = v77;
            weights[(row + 16) * 65 + column + 32] = v84;
            weights[(row + 16) * 65 + column + 48] = v91;
            __syncthreads();
            float taken0_0 = 0.0f;
            float taken0_1 = 0.0f;
            float taken0_2 = 0.0f;
            float taken0_3 = 0.0f;
            float taken1_0 = 0.0f;
            float taken1_1 = 0.0f;
            float taken1_2 = 0.0f;
            float taken1_3 = 0.0f;
            for (long long deep_start = 0; deep_start < 64; deep_start += 32) {
                for (long long at = thread; at < 2048; at += threads) {
                    const long long free = at % 64;
                    const long long deep = at / 64;
                    const long long place = start + deep_start + deep;
                    const float v92 = place < size3 && first_column + free < size4 ? operand1[offset1 + batch0 * stride1_0 + batch1 * stride1_1 + place * stride1_2 + (first_column + free) * stride1_3] : 0.0f;
                    right_tile[deep * 65 + free] = v92;
                }
                __syncthreads();
                for (long long k = 0; k < 32; k += 1) {
                    const float v93 = weights[(row) * 65 + (deep_start + k)];
                    const float v94 = weights[(row + 16) * 65 + (deep_start + k)];
                    const float v95 = right_tile[k * 65 + column];
                    const float v96 = right_tile[k * 65 + column + 16];
                    const float v97 = right_tile[k * 65 + column + 32];
                    const float v98 = right_tile[k * 65 + column + 48];
                    const float v99 = fma(v93, v95, taken0_0);
                    taken0_0 = v99;
                    const float v100 = fma(v93, v96, taken0_1);
                    taken0_1 = v100;
                    const float v101 = fma(v93, v97, taken0_2);
                    taken0_2 = v101;
                    const float v102 = fma(v93, v98, taken0_3);
                    taken0_3 = v102;
                    const float v103 = fma(v94, v95, taken1_0);
                    taken1_0 = v103;
                    const float v104 = fma(v94, v96, taken1_1);
                    taken1_1 = v104;
                    const float v105 = fma(v94, v97, taken1_2);
                    taken1_2 = v105;
                    const float v106 = fma(v94, v98, taken1_3);
                    taken1_3 = v106;
                }
                __syncthreads();
            }
            const float v107 = sum0_0 + taken0_0;
            sum0_0 = v107;
            const float v108 = sum0_1 + taken0_1;
            sum0_1 = v108;
            const float v109 = sum0_2 + taken0_2;
            sum0_2 = v109;
            const float v110 = sum0_3 + taken0_3;
            sum0_3 = v110;
            const float v111 = sum1_0 + taken1_0;
            sum1_0 = v111;
            const float v112 = sum1_1 + taken1_1;
            sum1_1 = v112;
            const float v113 = sum1_2 + taken1_2;
            sum1_2 = v113;
            const float v114 = sum1_3 + taken1_3;
            sum1_3 = v114;
        }
        if (row0 < size2 && column0 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row0 * stride6_2 + column0 * stride6_3] = sum0_0;
        }
        if (row0 < size2 && column1 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row0 * stride6_2 + column1 * stride6_3] = sum0_1;
        }
        if (row0 < size2 && column2 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row0 * stride6_2 + column2 * stride6_3] = sum0_2;
        }
        if (row0 < size2 && column3 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row0 * stride6_2 + column3 * stride6_3] = sum0_3;
        }
        if (row1 < size2 && column0 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row1 * stride6_2 + column0 * stride6_3] = sum1_0;
        }
        if (row1 < size2 && column1 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row1 * stride6_2 + column1 * stride6_3] = sum1_1;
        }
        if (row1 < size2 && column2 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row1 * stride6_2 + column2 * stride6_3] = sum1_2;
        }
        if (row1 < size2 && column3 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row1 * stride6_2 + column3 * stride6_3] = sum1_3;
        }
    }
}
