extern "C" __global__ void __launch_bounds__(256) attention_out_causal_float32_float32(
    const float* operand0,
    const float* operand1,
    const float* operand2,
    float* operand3,
    float* operand4,
    double given5,
    long long size0, long long size1, long long size2, long long size3, long long size4, long long size5,
    long long offset0, long long offset1, long long offset2, long long offset3, long long offset4,
    long long stride0_0, long long stride0_1, long long stride0_2, long long stride0_3,
    long long stride1_0, long long stride1_1, long long stride1_2, long long stride1_3,
    long long stride2_0, long long stride2_1, long long stride2_2, long long stride2_3,
    long long stride3_0, long long stride3_1, long long stride3_2, long long stride3_3,
    long long stride4_0, long long stride4_1, long long stride4_2) {
    const long long group = blockIdx.x;
    const long long groups = gridDim.x;
    const long long thread = threadIdx.x;
    const long long threads = 256;
    __shared__ float left_tile[1056];
    __shared__ float right_tile[2080];
    __shared__ float weights[2080];
    const float scalar5 = (float)given5;
    const long long row_tiles = (size2 + 31) / 32;
    const long long column_tiles = (size5 + 63) / 64;
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
        float peak0 = (-3.4028235e+38f);
        float total0 = 0.0f;
        float peak1 = (-3.4028235e+38f);
        float total1 = 0.0f;
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
                    const float v0 = first_row + free < size2 && deep_start + deep < size4 ? operand0[offset0 + batch0 * stride0_0 + batch1 * stride0_1 + (first_row + free) * stride0_2 + (deep_start + deep) * stride0_3] : 0.0f;
                    left_tile[deep * 33 + free] = v0;
                }
                for (long long at = thread; at < 2048; at += threads) {
                    const long long free = at / 32;
                    const long long deep = at % 32;
                    const float v1 = start + free < size3 && deep_start + deep < size4 ? operand1[offset1 + batch0 * stride1_0 + batch1 * stride1_1 + (start + free) * stride1_2 + (deep_start + deep) * stride1_3] : 0.0f;
                    right_tile[deep * 65 + free] = v1;
                }
                __syncthreads();
                for (long long k = 0; k < 32; k += 1) {
                    const float v2 = left_tile[k * 33 + row];
                    const float v3 = left_tile[k * 33 + row + 16];
                    const float v4 = right_tile[k * 65 + column];
                    const float v5 = right_tile[k * 65 + column + 16];
                    const float v6 = right_tile[k * 65 + column + 32];
                    const float v7 = right_tile[k * 65 + column + 48];
                    const float v8 = fma(v2, v4, score0_0);
                    score0_0 = v8;
                    const float v9 = fma(v2, v5, score0_1);
                    score0_1 = v9;
                    const float v10 = fma(v2, v6, score0_2);
                    score0_2 = v10;
                    const float v11 = fma(v2, v7, score0_3);
                    score0_3 = v11;
                    const float v12 = fma(v3, v4, score1_0);
                    score1_0 = v12;
                    const float v13 = fma(v3, v5, score1_1);
                    score1_1 = v13;
                    const float v14 = fma(v3, v6, score1_2);
                    score1_2 = v14;
                    const float v15 = fma(v3, v7, score1_3);
                    score1_3 = v15;
                }
                __syncthreads();
            }
            const bool seen0_0 = row0 < size2 && swept0 < size3 && swept0 <= row0;
            const float v16 = score0_0 * scalar5;
            const float v17 = seen0_0 ? v16 : (-3.4028235e+38f);
            const bool seen0_1 = row0 < size2 && swept1 < size3 && swept1 <= row0;
            const float v18 = score0_1 * scalar5;
            const float v19 = seen0_1 ? v18 : (-3.4028235e+38f);
            const bool seen0_2 = row0 < size2 && swept2 < size3 && swept2 <= row0;
            const float v20 = score0_2 * scalar5;
            const float v21 = seen0_2 ? v20 : (-3.4028235e+38f);
            const bool seen0_3 = row0 < size2 && swept3 < size3 && swept3 <= row0;
            const float v22 = score0_3 * scalar5;
            const float v23 = seen0_3 ? v22 : (-3.4028235e+38f);
            const bool seen1_0 = row1 < size2 && swept0 < size3 && swept0 <= row1;
            const float v24 = score1_0 * scalar5;
            const float v25 = seen1_0 ? v24 : (-3.4028235e+38f);
            const bool seen1_1 = row1 < size2 && swept1 < size3 && swept1 <= row1;
            const float v26 = score1_1 * scalar5;
            const float v27 = seen1_1 ? v26 : (-3.4028235e+38f);
            const bool seen1_2 = row1 < size2 && swept2 < size3 && swept2 <= row1;
            const float v28 = score1_2 * scalar5;
            const float v29 = seen1_2 ? v28 : (-3.4028235e+38f);
            const bool seen1_3 = row1 < size2 && swept3 < size3 && swept3 <= row1;
            const float v30 = score1_3 * scalar5;
            const float v31 = seen1_3 ? v30 : (-3.4028235e+38f);
            __syncthreads();
            weights[(row) * 65 + column] = v17;
            weights[(row) * 65 + column + 16] = v19;
            weights[(row) * 65 + column + 32] = v21;
            weights[(row) * 65 + column + 48] = v23;
            weights[(row + 16) * 65 + column] = v25;
            weights[(row + 16) * 65 + column + 16] = v27;
            weights[(row + 16) * 65 + column + 32] = v29;
            weights[(row + 16) * 65 + column + 48] = v31;
            __syncthreads();
            const float v32 = peak0;
            for (long long k = 0; k < 64; k += 1) {
                const float v33 = weights[(row) * 65 + k];
                if (v33 > peak0) { peak0 = v33; }
            }
            const float v34 = v32 - peak0;
            const float v35 = exp(v34);
            const float v36 = peak1;
            for (long long k = 0; k < 64; k += 1) {
                const float v37 = weights[(row + 16) * 65 + k];
                if (v37 > peak1) { peak1 = v37; }
            }
            const float v38 = v36 - peak1;
            const float v39 = exp(v38);
            const float v40 = v17 - peak0;
            const float v41 = exp(v40);
            const float v42 = seen0_0 ? v41 : 0.0f;
            const float v43 = v19 - peak0;
            const float v44 = exp(v43);
            const float v45 = seen0_1 ? v44 : 0.0f;
            const float v46 = v21 - peak0;
            const float v47 = exp(v46);
            const float v48 = seen0_2 ? v47 : 0.0f;
            const float v49 = v23 - peak0;
            const float v50 = exp(v49);
            const float v51 = seen0_3 ? v50 : 0.0f;
            const float v52 = v25 - peak1;
            const float v53 = exp(v52);
            const float v54 = seen1_0 ? v53 : 0.0f;
            const float v55 = v27 - peak1;
            const float v56 = exp(v55);
            const float v57 = seen1_1 ? v56 : 0.0f;
            const float v58 = v29 - peak1;
            const float v59 = exp(v58);
            const float v60 = seen1_2 ? v59 : 0.0f;
            const float v61 = v31 - peak1;
            const float v62 = exp(v61);
            const float v63 = seen1_3 ? v62 : 0.0f;
            __syncthreads();
            weights[(row) * 65 + column] = v42;
            weights[(row) * 65 + column + 16] = v45;
            weights[(row) * 65 + column + 32] = v48;
            weights[(row) * 65 + column + 48] = v51;
            weights[(row + 16) * 65 + column] = v54;
            weights[(row + 16) * 65 + column + 16] = v57;
            weights[(row + 16) * 65 + column + 32] = v60;
            weights[(row + 16) * 65 + column + 48] = v63;
            __syncthreads();
            float added0 = 0.0f;
            float added1 = 0.0f;
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
                    const float v64 = place < size3 && first_column + free < size5 ? operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + place * stride2_2 + (first_column + free) * stride2_3] : 0.0f;
                    right_tile[deep * 65 + free] = v64;
                }
                __syncthreads();
                for (long long k = 0; k < 32; k += 1) {
                    const float v65 = weights[(row) * 65 + (deep_start + k)];
                    const float v66 = weights[(row + 16) * 65 + (deep_start + k)];
                    const float v67 = right_tile[k * 65 + column];
                    const float v68 = right_tile[k * 65 + column + 16];
                    const float v69 = right_tile[k * 65 + column + 32];
                    const float v70 = right_tile[k * 65 + column + 48];
                    const float v71 = fma(v65, v67, taken0_0);
                    taken0_0 = v71;
                    const float v72 = fma(v65, v68, taken0_1);
                    taken0_1 = v72;
                    const float v73 = fma(v65, v69, taken0_2);
                    taken0_2 = v73;
                    const float v74 = fma(v65, v70, taken0_3);
                    taken0_3 = v74;
                    const float v75 = fma(v66, v67, taken1_0);
                    taken1_0 = v75;
                    const float v76 = fma(v66, v68, taken1_1);
                    taken1_1 = v76;
                    const float v77 = fma(v66, v69, taken1_2);
                    taken1_2 = v77;
                    const float v78 = fma(v66, v70, taken1_3);
                    taken1_3 = v78;
                    const float v79 = added0 + v65;
                    added0 = v79;
                    const float v80 = added1 + v66;
                    added1 = v80;
                }
                __syncthreads();
            }
            const float v81 = sum0_0 * v35;
            const float v82 = v81 + taken0_0;
            sum0_0 = v82;
            const float v83 = sum0_1 * v35;
            const float v84 = v83 + taken0_1;
            sum0_1 = v84;
            const float v85 = sum0_2 * v35;
            const float v86 = v85 + taken0_2;
            sum0_2 = v86;
            const float v87 = sum0_3 * v35;
            const float v88 = v87 + taken0_3;
            sum0_3 = v88;
            const float v89 = sum1_0 * v39;
            const float v90 = v89 + taken1_0;
            sum1_0 = v90;
            const float v91 = sum1_1 * v39;
            const float v92 = v91 + taken1_1;
            sum1_1 = v92;
            const float v93 = sum1_2 * v39;
            const float v94 = v93 + taken1_2;
            sum1_2 = v94;
            const float v95 = sum1_3 * v39;
            const float v96 = v95 + taken1_3;
            sum1_3 = v96;
            const float v97 = total0 * v35;
            const float v98 = v97 + added0;
            total0 = v98;
            const float v99 = total1 * v39;
            const float v100 = v99 + added1;
            total1 = v100;
        }
        const float v101 = sum0_0 / total0;
        if (row0 < size2 && column0 < size5) {
            operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + row0 * stride3_2 + column0 * stride3_3] = v101;
        }
        const float v102 = sum0_1 / total0;
        if (row0 < size2 && column1 < size5) {
            operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + row0 * stride3_2 + column1 * stride3_3] = v102;
        }
        const float v103 = sum0_2 / total0;
        if (row0 < size2 && column2 < size5) {
            operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + row0 * stride3_2 + column2 * stride3_3] = v103;
        }
        const float v104 = sum0_3 / total0;
        if (row0 < size2 && column3 < size5) {
            operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + row0 * stride3_2 + column3 * stride3_3] = v104;
        }
        const float v105 = sum1_0 / total1;
        if (row1 < size2 && column0 < size5) {
            operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + row1 * stride3_2 + column0 * stride3_3] = v105;
        }
        const float v106 = sum1_1 / total1;
        if (row1 < size2 && column1 < size5) {
            operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + row1 * stride3_2 + column1 * stride3_3] = v106;
        }
        const float v107 = sum1_2 / total1;
        if (row1 < size2 && column2 < size5) {
            operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + row1 * stride3_2 + column2 * stride3_3] = v107;
        }
        const float v108 = sum1_3 / total1;
        if (row1 < size2 && column3 < size5) {
            operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + row1 * stride3_2 + column3 * stride3_3] = v108;
        }
        if (first_column == 0 && column == 0) {
            const float v109 = log(total0);
            const float v110 = peak0 + v109;
            if (row0 < size2) {
                operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + row0 * stride4_2] = v110;
            }
            const float v111 = log(total1);
            const float v112 = peak1 + v111;
            if (row1 < size2) {
                operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + row1 * stride4_2] = v112;
            }
        }
    }
}
