extern "C" __global__ void __launch_bounds__(256) attention_key_causal_float32_float32(
    const float* operand0,
    const float* operand1,
    const float* operand2,
    const float* operand3,
    const float* operand4,
    const float* operand5,
    float* operand6,
    float* operand7,
    double given8,
    long long size0, long long size1, long long size2, long long size3, long long size4, long long size5,
    long long offset0, long long offset1, long long offset2, long long offset3, long long offset4, long long offset5, long long offset6, long long offset7,
    long long stride0_0, long long stride0_1, long long stride0_2, long long stride0_3,
    long long stride1_0, long long stride1_1, long long stride1_2, long long stride1_3,
    long long stride2_0, long long stride2_1, long long stride2_2, long long stride2_3,
    long long stride3_0, long long stride3_1, long long stride3_2, long long stride3_3,
    long long stride4_0, long long stride4_1, long long stride4_2,
    long long stride5_0, long long stride5_1, long long stride5_2,
    long long stride6_0, long long stride6_1, long long stride6_2, long long stride6_3,
    long long stride7_0, long long stride7_1, long long stride7_2, long long stride7_3) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = 256;
    __shared__ float left_tile[1056];
    __shared__ float right_tile[2080];
    __shared__ float weights[2080];
    const float scalar8 = (float)given8;
    const long long row_tiles = (size3 + 31) / 32;
    const long long column_tiles = (max(size4, size5) + 63) / 64;
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
        float sum0_0 = 0.0f;
        float sum0_1 = 0.0f;
        float sum0_2 = 0.0f;
        float sum0_3 = 0.0f;
        float sum1_0 = 0.0f;
        float sum1_1 = 0.0f;
        float sum1_2 = 0.0f;
        float sum1_3 = 0.0f;
        float mean0_0 = 0.0f;
        float mean0_1 = 0.0f;
        float mean0_2 = 0.0f;
        float mean0_3 = 0.0f;
        float mean1_0 = 0.0f;
        float mean1_1 = 0.0f;
        float mean1_2 = 0.0f;
        float mean1_3 = 0.0f;
        for (long long start = first_row / 64 * 64; start < size2; start += 64) {
            const long long swept0 = start + column;
            const long long swept1 = start + column + 16;
            const long long swept2 = start + column + 32;
            const long long swept3 = start + column + 48;
            const float v0 = swept0 < size2 ? operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + swept0 * stride4_2] : 0.0f;
            const float v1 = swept0 < size2 ? operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + swept0 * stride5_2] : 0.0f;
            const float v2 = swept1 < size2 ? operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + swept1 * stride4_2] : 0.0f;
            const float v3 = swept1 < size2 ? operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + swept1 * stride5_2] : 0.0f;
            const float v4 = swept2 < size2 ? operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + swept2 * stride4_2] : 0.0f;
            const float v5 = swept2 < size2 ? operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + swept2 * stride5_2] : 0.0f;
            const float v6 = swept3 < size2 ? operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + swept3 * stride4_2] : 0.0f;
            const float v7 = swept3 < size2 ? operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + swept3 * stride5_2] : 0.0f;
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
                    const float v8 = first_row + free < size3 && deep_start + deep < size4 ? operand1[offset1 + batch0 * stride1_0 + batch1 * stride1_1 + (first_row + free) * stride1_2 + (deep_start + deep) * stride1_3] : 0.0f;
                    left_tile[deep * 33 + free] = v8;
                }
                for (long long at = thread; at < 2048; at += threads) {
                    const long long free = at / 32;
                    const long long deep = at % 32;
                    const float v9 = start + free < size2 && deep_start + deep < size4 ? operand0[offset0 + batch0 * stride0_0 + batch1 * stride0_1 + (start + free) * stride0_2 + (deep_start + deep) * stride0_3] : 0.0f;
                    right_tile[deep * 65 + free] = v9;
                }
                __syncthreads();
                for (long long k = 0; k < 32; k += 1) {
                    const float v10 = left_tile[k * 33 + row];
                    const float v11 = left_tile[k * 33 + row + 16];
                    const float v12 = right_tile[k * 65 + column];
                    const float v13 = right_tile[k * 65 + column + 16];
                    const float v14 = right_tile[k * 65 + column + 32];
                    const float v15 = right_tile[k * 65 + column + 48];
                    const float v16 = fma(v10, v12, score0_0);
                    score0_0 = v16;
                    const float v17 = fma(v10, v13, score0_1);
                    score0_1 = v17;
                    const float v18 = fma(v10, v14, score0_2);
                    score0_2 = v18;
                    const float v19 = fma(v10, v15, score0_3);
                    score0_3 = v19;
                    const float v20 = fma(v11, v12, score1_0);
                    score1_0 = v20;
                    const float v21 = fma(v11, v13, score1_1);
                    score1_1 = v21;
                    const float v22 = fma(v11, v14, score1_2);
                    score1_2 = v22;
                    const float v23 = fma(v11, v15, score1_3);
                    score1_3 = v23;
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
                    const float v24 = first_row + free < size3 && deep_start + deep < size5 ? operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + (first_row + free) * stride2_2 + (deep_start + deep) * stride2_3] : 0.0f;
                    left_tile[deep * 33 + free] = v24;
                }
                for (long long at = thread; at < 2048; at += threads) {
                    const long long free = at / 32;
                    const long long deep = at % 32;
                    const float v25 = start + free < size2 && deep_start + deep < size5 ? operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + (start + free) * stride3_2 + (deep_start + deep) * stride3_3] : 0.0f;
                    right_tile[deep * 65 + free] = v25;
                }
                __syncthreads();
                for (long long k = 0; k < 32; k += 1) {
                    const float v26 = left_tile[k * 33 + row];
                    const float v27 = left_tile[k * 33 + row + 16];
                    const float v28 = right_tile[k * 65 + column];
                    const float v29 = right_tile[k * 65 + column + 16];
                    const float v30 = right_tile[k * 65 + column + 32];
                    const float v31 = right_tile[k * 65 + column + 48];
                    const float v32 = fma(v26, v28, pull0_0);
                    pull0_0 = v32;
                    const float v33 = fma(v26, v29, pull0_1);
                    pull0_1 = v33;
                    const float v34 = fma(v26, v30, pull0_2);
                    pull0_2 = v34;
                    const float v35 = fma(v26, v31, pull0_3);
                    pull0_3 = v35;
                    const float v36 = fma(v27, v28, pull1_0);
                    pull1_0 = v36;
                    const float v37 = fma(v27, v29, pull1_1);
                    pull1_1 = v37;
                    const float v38 = fma(v27, v30, pull1_2);
                    pull1_2 = v38;
                    const float v39 = fma(v27, v31, pull1_3);
                    pull1_3 = v39;
                }
                __syncthreads();
            }
            const bool seen0_0 = row0 < size3 && swept0 < size2 && row0 <= swept0;
            const float v40 = score0_0 * scalar8;
            const float v41 = v40 - v0;
            const float v42 = exp(v41);
            const float v43 = seen0_0 ? v42 : 0.0f;
            const float v44 = pull0_0 - v1;
            const float v45 = v43 * v44;
            const float v46 = v45 * scalar8;
            const bool seen0_1 = row0 < size3 && swept1 < size2 && row0 <= swept1;
            const float v47 = score0_1 * scalar8;
            const float v48 = v47 - v2;
            const float v49 = exp(v48);
            const float v50 = seen0_1 ? v49 : 0.0f;
            const float v51 = pull0_1 - v3;
            const float v52 = v50 * v51;
            const float v53 = v52 * scalar8;
            const bool seen0_2 = row0 < size3 && swept2 < size2 && row0 <= swept2;
            const float v54 = score0_2 * scalar8;
            const float v55 = v54 - v4;
            const float v56 = exp(v55);
            const float v57 = seen0_2 ? v56 : 0.0f;
            const float v58 = pull0_2 - v5;
            const float v59 = v57 * v58;
            const float v60 = v59 * scalar8;
            const bool seen0_3 = row0 < size3 && swept3 < size2 && row0 <= swept3;
            const float v61 = score0_3 * scalar8;
            const float v62 = v61 - v6;
            const float v63 = exp(v62);
            const float v64 = seen0_3 ? v63 : 0.0f;
            const float v65 = pull0_3 - v7;
            const float v66 = v64 * v65;
            const float v67 = v66 * scalar8;
            const bool seen1_0 = row1 < size3 && swept0 < size2 && row1 <= swept0;
            const float v68 = score1_0 * scalar8;
            const float v69 = v68 - v0;
            const float v70 = exp(v69);
            const float v71 = seen1_0 ? v70 : 0.0f;
            const float v72 = pull1_0 - v1;
            const float v73 = v71 * v72;
            const float v74 = v73 * scalar8;
            const bool seen1_1 = row1 < size3 && swept1 < size2 && row1 <= swept1;
            const float v75 = score1_1 * scalar8;
            const float v76 = v75 - v2;
            const float v77 = exp(v76);
            const float v78 = seen1_1 ? v77 : 0.0f;
            const float v79 = pull1_1 - v3;
            const float v80 = v78 * v79;
            const float v81 = v80 * scalar8;
            const bool seen1_2 = row1 < size3 && swept2 < size2 && row1 <= swept2;
            const float v82 = score1_2 * scalar8;
            const float v83 = v82 - v4;
            const float v84 = exp(v83);
            const float v85 = seen1_2 ? v84 : 0.0f;
            const float v86 = pull1_2 - v5;
            const float v87 = v85 * v86;
            const float v88 = v87 * scalar8;
            const bool seen1_3 = row1 < size3 && swept3 < size2 && row1 <= swept3;
            const float v89 = score1_3 * scalar8;
            const float v90 = v89 - v6;
            const float v91 = exp(v90);
            const float v92 = seen1_3 ? v91 : 0.0f;
            const float v93 = pull1_3 - v7;
            const float v94 = v92 * v93;
            const float v95 = v94 * scalar8;
            __syncthreads();
            weights[(row) * 65 + column] = v43;
            weights[(row) * 65 + column + 16] = v50;
            weights[(row) * 65 + column + 32] = v57;
            weights[(row) * 65 + column + 48] = v64;
            weights[(row + 16) * 65 + column] = v71;
            weights[(row + 16) * 65 + column + 16] = v78;
            weights[(row + 16) * 65 + column + 32] = v85;
            weights[(row + 16) * 65 + column + 48] = v92;
            __syncthreads();
            float pulled0_0 = 0.0f;
            float pulled0_1 = 0.0f;
            float pulled0_2 = 0.0f;
            float pulled0_3 = 0.0f;
            float pulled1_0 = 0.0f;
            float pulled1_1 = 0.0f;
            float pulled1_2 = 0.0f;
            float pulled1_3 = 0.0f;
            for (long long deep_start = 0; deep_start < 64; deep_start += 32) {
                for (long long at = thread; at < 2048; at += threads) {
                    const long long free = at % 64;
                    const long long deep = at / 64;
                    const long long place = start + deep_start + deep;
                    const float v96 = place < size2 && first_column + free < size5 ? operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + place * stride3_2 + (first_column + free) * stride3_3] : 0.0f;
                    right_tile[deep * 65 + free] = v96;
                }
                __syncthreads();
                for (long long k = 0; k < 32; k += 1) {
                    const float v97 = weights[(row) * 65 + (deep_start + k)];
                    const float v98 = weights[(row + 16) * 65 + (deep_start + k)];
                    const float v99 = right_tile[k * 65 + column];
                    const float v100 = right_tile[k * 65 + column + 16];
                    const float v101 = right_tile[k * 65 + column + 32];
                    const float v102 = right_tile[k * 65 + column + 48];
                    const float v103 = fma(v97, v99, pulled0_0);
                    pulled0_0 = v103;
                    const float v104 = fma(v97, v100, pulled0_1);
                    pulled0_1 = v104;
                    const float v105 = fma(v97, v101, pulled0_2);
                    pulled0_2 = v105;
                    const float v106 = fma(v97, v102, pulled0_3);
                    pulled0_3 = v106;
                    const float v107 = fma(v98, v99, pulled1_0);
                    pulled1_0 = v107;
                    const float v108 = fma(v98, v100, pulled1_1);
                    pulled1_1 = v108;
                    const float v109 = fma(v98, v101, pulled1_2);
                    pulled1_2 = v109;
                    const float v110 = fma(v98, v102, pulled1_3);
                    pulled1_3 = v110;
                }
                __syncthreads();
            }
            const float v111 = mean0_0 + pulled0_0;
            mean0_0 = v111;
            const float v112 = mean0_1 + pulled0_1;
            mean0_1 = v112;
            const float v113 = mean0_2 + pulled0_2;
            mean0_2 = v113;
            const float v114 = mean0_3 + pulled0_3;
            mean0_3 = v114;
            const float v115 = mean1_0 + pulled1_0;
            mean1_0 = v115;
            const float v116 = mean1_1 + pulled1_1;
            mean1_1 = v116;
            const float v117 = mean1_2 + pulled1_2;
            mean1_2 = v117;
            const float v118 = mean1_3 + pulled1_3;
            mean1_3 = v118;
            __syncthreads();
            weights[(row) * 65 + column] = v46;
            weights[(row) * 65 + column + 16] = v53;
            weights[(row) * 65 + column + 32] = v60;
            weights[(row) * 65 + column + 48] = v67;
            weights[(row + 16) * 65 + column] = v74;
            weights[(row + 16) * 65 + column + 16] = v81;
            weights[(row + 16) * 65 + column + 32] = v88;
            weights[(row + 16) * 65 + column + 48] = v95;
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
                    const float v119 = place < size2 && first_column + free < size4 ? operand0[offset0 + batch0 * stride0_0 + batch1 * stride0_1 + place * stride0_2 + (first_column + free) * stride0_3] : 0.0f;
                    right_tile[deep * 65 + free] = v119;
                }
                __syncthreads();
                for (long long k = 0; k < 32; k += 1) {
                    const float v120 = weights[(row) * 65 + (deep_start + k)];
                    const float v121 = weights[(row + 16) * 65 + (deep_start + k)];
                    const float v122 = right_tile[k * 65 + column];
                    const float v123 = right_tile[k * 65 + column + 16];
                    const float v124 = right_tile[k * 65 + column + 32];
                    const float v125 = right_tile[k * 65 + column + 48];
                    const float v126 = fma(v120, v122, taken0_0);
                    taken0_0 = v126;
                    const float v127 = fma(v120, v123, taken0_1);
                    taken0_1 = v127;
                    const float v128 = fma(v120, v124, taken0_2);
                    taken0_2 = v128;
                    const float v129 = fma(v120, v125, taken0_3);
                    taken0_3 = v129;
                    const float v130 = fma(v121, v122, taken1_0);
                    taken1_0 = v130;
                    const float v131 = fma(v121, v123, taken1_1);
                    taken1_1 = v131;
                    const float v132 = fma(v121, v124, taken1_2);
                    taken1_2 = v132;
                    const float v133 = fma(v121, v125, taken1_3);
                    taken1_3 = v133;
                }
                __syncthreads();
            }
            const float v134 = sum0_0 + taken0_0;
            sum0_0 = v134;
            const float v135 = sum0_1 + taken0_1;
            sum0_1 = v135;
            const float v136 = sum0_2 + taken0_2;
            sum0_2 = v136;
            const float v137 = sum0_3 + taken0_3;
            sum0_3 = v137;
            const float v138 = sum1_0 + taken1_0;
            sum1_0 = v138;
            const float v139 = sum1_1 + taken1_1;
            sum1_1 = v139;
            const float v140 = sum1_2 + taken1_2;
            sum1_2 = v140;
            const float v141 = sum1_3 + taken1_3;
            sum1_3 = v141;
        }
        if (row0 < size3 && column0 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row0 * stride6_2 + column0 * stride6_3] = sum0_0;
        }
        if (row0 < size3 && column0 < size5) {
            operand7[offset7 + batch0 * stride7_0 + batch1 * stride7_1 + row0 * stride7_2 + column0 * stride7_3] = mean0_0;
        }
        if (row0 < size3 && column1 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row0 * stride6_2 + column1 * stride6_3] = sum0_1;
        }
        if (row0 < size3 && column1 < size5) {
            operand7[offset7 + batch0 * stride7_0 + batch1 * stride7_1 + row0 * stride7_2 + column1 * stride7_3] = mean0_1;
        }
        if (row0 < size3 && column2 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row0 * stride6_2 + column2 * stride6_3] = sum0_2;
        }
        if (row0 < size3 && column2 < size5) {
            operand7[offset7 + batch0 * stride7_0 + batch1 * stride7_1 + row0 * stride7_2 + column2 * stride7_3] = mean0_2;
        }
        if (row0 < size3 && column3 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row0 * stride6_2 + column3 * stride6_3] = sum0_3;
        }
        if (row0 < size3 && column3 < size5) {
            operand7[offset7 + batch0 * stride7_0 + batch1 * stride7_1 + row0 * stride7_2 + column3 * stride7_3] = mean0_3;
        }
        if (row1 < size3 && column0 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row1 * stride6_2 + column0 * stride6_3] = sum1_0;
        }
        if (row1 < size3 && column0 < size5) {
            operand7[offset7 + batch0 * stride7_0 + batch1 * stride7_1 + row1 * stride7_2 + column0 * stride7_3] = mean1_0;
        }
        if (row1 < size3 && column1 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row1 * stride6_2 + column1 * stride6_3] = sum1_1;
        }
        if (row1 < size3 && column1 < size5) {
            operand7[offset7 + batch0 * stride7_0 + batch1 * stride7_1 + row1 * stride7_2 + column1 * stride7_3] = mean1_1;
        }
        if (row1 < size3 && column2 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row1 * stride6_2 + column2 * stride6_3] = sum1_2;
        }
        if (row1 < size3 && column2 < size5) {
            operand7[offset7 + batch0 * stride7_0 + batch1 * stride7_1 + row1 * stride7_2 + column2 * stride7_3] = mean1_2;
        }
        if (row1 < size3 && column3 < size4) {
            operand6[offset6 + batch0 * stride6_0 + batch1 * stride6_1 + row1 * stride6_2 + column3 * stride6_3] = sum1_3;
        }
        if (row1 < size3 && column3 < size5) {
            operand7[offset7 + batch0 * stride7_0 + batch1 * stride7_1 + row1 * stride7_2 + column3 * stride7_3] = mean1_3;
        }
    }
}
