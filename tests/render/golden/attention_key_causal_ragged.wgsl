struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, size3: i32, size4: i32, size5: i32, offset0: i32, offset1: i32, offset2: i32, offset3: i32, offset4: i32, offset5: i32, offset6: i32, offset7: i32, stride0_0: i32, stride0_1: i32, stride0_2: i32, stride0_3: i32, stride1_0: i32, stride1_1: i32, stride1_2: i32, stride1_3: i32, stride2_0: i32, stride2_1: i32, stride2_2: i32, stride2_3: i32, stride3_0: i32, stride3_1: i32, stride3_2: i32, stride3_3: i32, stride4_0: i32, stride4_1: i32, stride4_2: i32, stride5_0: i32, stride5_1: i32, stride5_2: i32, stride6_0: i32, stride6_1: i32, stride6_2: i32, stride6_3: i32, stride7_0: i32, stride7_1: i32, stride7_2: i32, stride7_3: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar8: f32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read> operand1: array<f32>;
@group(0) @binding(4) var<storage, read> operand2: array<f32>;
@group(0) @binding(5) var<storage, read> operand3: array<f32>;
@group(0) @binding(6) var<storage, read> operand4: array<f32>;
@group(0) @binding(7) var<storage, read> operand5: array<f32>;
@group(0) @binding(8) var<storage, read_write> operand6: array<f32>;
@group(0) @binding(9) var<storage, read_write> operand7: array<f32>;
var<workgroup> left_tile: array<f32, 528>;
var<workgroup> right_tile: array<f32, 1040>;
var<workgroup> weights: array<f32, 2080>;

@compute @workgroup_size(256)
fn attention_key_causal_float32_float32(
    @builtin(local_invocation_index) local: u32,
    @builtin(workgroup_id) place: vec3<u32>,
    @builtin(num_workgroups) extent: vec3<u32>) {
    let thread: i32 = i32(local);
    let threads: i32 = 256;
    let group: i32 = i32(place.x + place.y * extent.x);
    let groups: i32 = i32(extent.x * extent.y);
    let size0: i32 = arguments.size0;
    let size1: i32 = arguments.size1;
    let size2: i32 = arguments.size2;
    let size3: i32 = arguments.size3;
    let size4: i32 = arguments.size4;
    let size5: i32 = arguments.size5;
    let offset0: i32 = arguments.offset0;
    let offset1: i32 = arguments.offset1;
    let offset2: i32 = arguments.offset2;
    let offset3: i32 = arguments.offset3;
    let offset4: i32 = arguments.offset4;
    let offset5: i32 = arguments.offset5;
    let offset6: i32 = arguments.offset6;
    let offset7: i32 = arguments.offset7;
    let stride0_0: i32 = arguments.stride0_0;
    let stride0_1: i32 = arguments.stride0_1;
    let stride0_2: i32 = arguments.stride0_2;
    let stride0_3: i32 = arguments.stride0_3;
    let stride1_0: i32 = arguments.stride1_0;
    let stride1_1: i32 = arguments.stride1_1;
    let stride1_2: i32 = arguments.stride1_2;
    let stride1_3: i32 = arguments.stride1_3;
    let stride2_0: i32 = arguments.stride2_0;
    let stride2_1: i32 = arguments.stride2_1;
    let stride2_2: i32 = arguments.stride2_2;
    let stride2_3: i32 = arguments.stride2_3;
    let stride3_0: i32 = arguments.stride3_0;
    let stride3_1: i32 = arguments.stride3_1;
    let stride3_2: i32 = arguments.stride3_2;
    let stride3_3: i32 = arguments.stride3_3;
    let stride4_0: i32 = arguments.stride4_0;
    let stride4_1: i32 = arguments.stride4_1;
    let stride4_2: i32 = arguments.stride4_2;
    let stride5_0: i32 = arguments.stride5_0;
    let stride5_1: i32 = arguments.stride5_1;
    let stride5_2: i32 = arguments.stride5_2;
    let stride6_0: i32 = arguments.stride6_0;
    let stride6_1: i32 = arguments.stride6_1;
    let stride6_2: i32 = arguments.stride6_2;
    let stride6_3: i32 = arguments.stride6_3;
    let stride7_0: i32 = arguments.stride7_0;
    let stride7_1: i32 = arguments.stride7_1;
    let stride7_2: i32 = arguments.stride7_2;
    let stride7_3: i32 = arguments.stride7_3;
    let scalar8: f32 = scalars.scalar8;
    let row_tiles: i32 = (size3 + 31) / 32;
    let column_tiles: i32 = (max(size4, size5) + 63) / 64;
    let tiles: i32 = size0 * size1 * row_tiles * column_tiles;
    let row: i32 = thread / 16;
    let column: i32 = thread % 16;
    for (var tile: i32 = group; tile < tiles; tile += groups) {
        let batch: i32 = tile / (row_tiles * column_tiles);
        let batch0: i32 = batch / size1;
        let batch1: i32 = batch % size1;
        let first_row: i32 = tile / column_tiles % row_tiles * 32;
        let first_column: i32 = tile % column_tiles * 64;
        let row0: i32 = first_row + row;
        let row1: i32 = first_row + row + 16;
        let column0: i32 = first_column + column;
        let column1: i32 = first_column + column + 16;
        let column2: i32 = first_column + column + 32;
        let column3: i32 = first_column + column + 48;
        var sum0_0: f32 = 0.0f;
        var sum0_1: f32 = 0.0f;
        var sum0_2: f32 = 0.0f;
        var sum0_3: f32 = 0.0f;
        var sum1_0: f32 = 0.0f;
        var sum1_1: f32 = 0.0f;
        var sum1_2: f32 = 0.0f;
        var sum1_3: f32 = 0.0f;
        var mean0_0: f32 = 0.0f;
        var mean0_1: f32 = 0.0f;
        var mean0_2: f32 = 0.0f;
        var mean0_3: f32 = 0.0f;
        var mean1_0: f32 = 0.0f;
        var mean1_1: f32 = 0.0f;
        var mean1_2: f32 = 0.0f;
        var mean1_3: f32 = 0.0f;
        for (var start: i32 = first_row / 64 * 64; start < size2; start += 64) {
            let swept0: i32 = start + column;
            let swept1: i32 = start + column + 16;
            let swept2: i32 = start + column + 32;
            let swept3: i32 = start + column + 48;
            var v0: f32 = 0.0f;
            if (swept0 < size2) { v0 = operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + swept0 * stride4_2]; }
            var v1: f32 = 0.0f;
            if (swept0 < size2) { v1 = operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + swept0 * stride5_2]; }
            var v2: f32 = 0.0f;
            if (swept1 < size2) { v2 = operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + swept1 * stride4_2]; }
            var v3: f32 = 0.0f;
            if (swept1 < size2) { v3 = operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + swept1 * stride5_2]; }
            var v4: f32 = 0.0f;
            if (swept2 < size2) { v4 = operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + swept2 * stride4_2]; }
            var v5: f32 = 0.0f;
            if (swept2 < size2) { v5 = operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + swept2 * stride5_2]; }
            var v6: f32 = 0.0f;
            if (swept3 < size2) { v6 = operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + swept3 * stride4_2]; }
            var v7: f32 = 0.0f;
            if (swept3 < size2) { v7 = operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + swept3 * stride5_2]; }
            var score0_0: f32 = 0.0f;
            var score0_1: f32 = 0.0f;
            var score0_2: f32 = 0.0f;
            var score0_3: f32 = 0.0f;
            var score1_0: f32 = 0.0f;
            var score1_1: f32 = 0.0f;
            var score1_2: f32 = 0.0f;
            var score1_3: f32 = 0.0f;
            for (var deep_start: i32 = 0; deep_start < size4; deep_start += 16) {
                for (var at: i32 = thread; at < 512; at += threads) {
                    let free: i32 = at / 16;
                    let deep: i32 = at % 16;
                    var v8: f32 = 0.0f;
                    if (first_row + free < size3 && deep_start + deep < size4) { v8 = operand1[offset1 + batch0 * stride1_0 + batch1 * stride1_1 + (first_row + free) * stride1_2 + (deep_start + deep) * stride1_3]; }
                    left_tile[deep * 33 + free] = v8;
                }
                for (var at: i32 = thread; at < 1024; at += threads) {
                    let free: i32 = at / 16;
                    let deep: i32 = at % 16;
                    var v9: f32 = 0.0f;
                    if (start + free < size2 && deep_start + deep < size4) { v9 = operand0[offset0 + batch0 * stride0_0 + batch1 * stride0_1 + (start + free) * stride0_2 + (deep_start + deep) * stride0_3]; }
                    right_tile[deep * 65 + free] = v9;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let v10: f32 = left_tile[k * 33 + row];
                    let v11: f32 = left_tile[k * 33 + row + 16];
                    let v12: f32 = right_tile[k * 65 + column];
                    let v13: f32 = right_tile[k * 65 + column + 16];
                    let v14: f32 = right_tile[k * 65 + column + 32];
                    let v15: f32 = right_tile[k * 65 + column + 48];
                    let v16: f32 = fma(v10, v12, score0_0);
                    score0_0 = v16;
                    let v17: f32 = fma(v10, v13, score0_1);
                    score0_1 = v17;
                    let v18: f32 = fma(v10, v14, score0_2);
                    score0_2 = v18;
                    let v19: f32 = fma(v10, v15, score0_3);
                    score0_3 = v19;
                    let v20: f32 = fma(v11, v12, score1_0);
                    score1_0 = v20;
                    let v21: f32 = fma(v11, v13, score1_1);
                    score1_1 = v21;
                    let v22: f32 = fma(v11, v14, score1_2);
                    score1_2 = v22;
                    let v23: f32 = fma(v11, v15, score1_3);
                    score1_3 = v23;
                }
                workgroupBarrier();
            }
            var pull0_0: f32 = 0.0f;
            var pull0_1: f32 = 0.0f;
            var pull0_2: f32 = 0.0f;
            var pull0_3: f32 = 0.0f;
            var pull1_0: f32 = 0.0f;
            var pull1_1: f32 = 0.0f;
            var pull1_2: f32 = 0.0f;
            var pull1_3: f32 = 0.0f;
            for (var deep_start: i32 = 0; deep_start < size5; deep_start += 16) {
                for (var at: i32 = thread; at < 512; at += threads) {
                    let free: i32 = at / 16;
                    let deep: i32 = at % 16;
                    var v24: f32 = 0.0f;
                    if (first_row + free < size3 && deep_start + deep < size5) { v24 = operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + (first_row + free) * stride2_2 + (deep_start + deep) * stride2_3]; }
                    left_tile[deep * 33 + free] = v24;
                }
                for (var at: i32 = thread; at < 1024; at += threads) {
                    let free: i32 = at / 16;
                    let deep: i32 = at % 16;
                    var v25: f32 = 0.0f;
                    if (start + free < size2 && deep_start + deep < size5) { v25 = operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + (start + free) * stride3_2 + (deep_start + deep) * stride3_3]; }
                    right_tile[deep * 65 + free] = v25;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let v26: f32 = left_tile[k * 33 + row];
                    let v27: f32 = left_tile[k * 33 + row + 16];
                    let v28: f32 = right_tile[k * 65 + column];
                    let v29: f32 = right_tile[k * 65 + column + 16];
                    let v30: f32 = right_tile[k * 65 + column + 32];
                    let v31: f32 = right_tile[k * 65 + column + 48];
                    let v32: f32 = fma(v26, v28, pull0_0);
                    pull0_0 = v32;
                    let v33: f32 = fma(v26, v29, pull0_1);
                    pull0_1 = v33;
                    let v34: f32 = fma(v26, v30, pull0_2);
                    pull0_2 = v34;
                    let v35: f32 = fma(v26, v31, pull0_3);
                    pull0_3 = v35;
                    let v36: f32 = fma(v27, v28, pull1_0);
                    pull1_0 = v36;
                    let v37: f32 = fma(v27, v29, pull1_1);
                    pull1_1 = v37;
                    let v38: f32 = fma(v27, v30, pull1_2);
                    pull1_2 = v38;
                    let v39: f32 = fma(v27, v31, pull1_3);
                    pull1_3 = v39;
                }
                workgroupBarrier();
            }
            let seen0_0: bool = row0 < size3 && swept0 < size2 && row0 <= swept0;
            let v40: f32 = score0_0 * scalar8;
            let v41: f32 = v40 - v0;
            let v42: bool = v41 < (-104.0f);
            let v43: bool = v41 > 89.0f;
            let v44: f32 = select(v41, 89.0f, v43);
            let v45: f32 = select(v44, (-104.0f), v42);
            let v46: f32 = v45 * 1.442695f;
            let v47: f32 = round(v46);
            let v48: f32 = fma(v47, (-0.69314575f), v45);
            let v49: f32 = fma(v47, (-1.4286068e-06f), v48);
            let v50: f32 = v49 * v49;
            let v51: f32 = fma(0.0001991374f, v49, 0.0013940377f);
            let v52: f32 = fma(v51, v49, 0.008333274f);
            let v53: f32 = fma(v52, v49, 0.041666366f);
            let v54: f32 = fma(v53, v49, 0.16666667f);
            let v55: f32 = fma(v54, v49, 0.5f);
            let v56: f32 = fma(v50, v55, v49);
            let v57: f32 = 1.0f + v56;
            let v58: f32 = v47 + 1.2582912e+07f;
            let v59: u32 = bitcast<u32>(v58);
            let v60: u32 = v59 >> (1u & 31u);
            let v61: u32 = v60 + 127u;
            let v62: u32 = v61 << (u32(23u) & 31u);
            let v63: f32 = bitcast<f32>(v62);
            let v64: f32 = v57 * v63;
            let v65: u32 = v59 - v60;
            let v66: u32 = v65 + 127u;
            let v67: u32 = v66 << (u32(23u) & 31u);
            let v68: f32 = bitcast<f32>(v67);
            let v69: f32 = v64 * v68;
            let v70: f32 = select(0.0f, v69, seen0_0);
            let v71: f32 = pull0_0 - v1;
            let v72: f32 = v70 * v71;
            let v73: f32 = v72 * scalar8;
            let seen0_1: bool = row0 < size3 && swept1 < size2 && row0 <= swept1;
            let v74: f32 = score0_1 * scalar8;
            let v75: f32 = v74 - v2;
            let v76: bool = v75 < (-104.0f);
            let v77: bool = v75 > 89.0f;
            let v78: f32 = select(v75, 89.0f, v77);
            let v79: f32 = select(v78, (-104.0f), v76);
            let v80: f32 = v79 * 1.442695f;
            let v81: f32 = round(v80);
            let v82: f32 = fma(v81, (-0.69314575f), v79);
            let v83: f32 = fma(v81, (-1.4286068e-06f), v82);
            let v84: f32 = v83 * v83;
            let v85: f32 = fma(0.0001991374f, v83, 0.0013940377f);
            let v86: f32 = fma(v85, v83, 0.008333274f);
            let v87: f32 = fma(v86, v83, 0.041666366f);
            let v88: f32 = fma(v87, v83, 0.16666667f);
            let v89: f32 = fma(v88, v83, 0.5f);
            let v90: f32 = fma(v84, v89, v83);
            let v91: f32 = 1.0f + v90;
            let v92: f32 = v81 + 1.2582912e+07f;
            let v93: u32 = bitcast<u32>(v92);
            let v94: u32 = v93 >> (1u & 31u);
            let v95: u32 = v94 + 127u;
            let v96: u32 = v95 << (u32(23u) & 31u);
            let v97: f32 = bitcast<f32>(v96);
            let v98: f32 = v91 * v97;
            let v99: u32 = v93 - v94;
            let v100: u32 = v99 + 127u;
            let v101: u32 = v100 << (u32(23u) & 31u);
            let v102: f32 = bitcast<f32>(v101);
            let v103: f32 = v98 * v102;
            let v104: f32 = select(0.0f, v103, seen0_1);
            let v105: f32 = pull0_1 - v3;
            let v106: f32 = v104 * v105;
            let v107: f32 = v106 * scalar8;
            let seen0_2: bool = row0 < size3 && swept2 < size2 && row0 <= swept2;
            let v108: f32 = score0_2 * scalar8;
            let v109: f32 = v108 - v4;
            let v110: bool = v109 < (-104.0f);
            let v111: bool = v109 > 89.0f;
            let v112: f32 = select(v109, 89.0f, v111);
            let v113: f32 = select(v112, (-104.0f), v110);
            let v114: f32 = v113 * 1.442695f;
            let v115: f32 = round(v114);
            let v116: f32 = fma(v115, (-0.69314575f), v113);
            let v117: f32 = fma(v115, (-1.4286068e-06f), v116);
            let v118: f32 = v117 * v117;
            let v119: f32 = fma(0.0001991374f, v117, 0.0013940377f);
            let v120: f32 = fma(v119, v117, 0.008333274f);
            let v121: f32 = fma(v120, v117, 0.041666366f);
            let v122: f32 = fma(v121, v117, 0.16666667f);
            let v123: f32 = fma(v122, v117, 0.5f);
            let v124: f32 = fma(v118, v123, v117);
            let v125: f32 = 1.0f + v124;
            let v126: f32 = v115 + 1.2582912e+07f;
            let v127: u32 = bitcast<u32>(v126);
            let v128: u32 = v127 >> (1u & 31u);
            let v129: u32 = v128 + 127u;
            let v130: u32 = v129 << (u32(23u) & 31u);
            let v131: f32 = bitcast<f32>(v130);
            let v132: f32 = v125 * v131;
            let v133: u32 = v127 - v128;
            let v134: u32 = v133 + 127u;
            let v135: u32 = v134 << (u32(23u) & 31u);
            let v136: f32 = bitcast<f32>(v135);
            let v137: f32 = v132 * v136;
            let v138: f32 = select(0.0f, v137, seen0_2);
            let v139: f32 = pull0_2 - v5;
            let v140: f32 = v138 * v139;
            let v141: f32 = v140 * scalar8;
            let seen0_3: bool = row0 < size3 && swept3 < size2 && row0 <= swept3;
            let v142: f32 = score0_3 * scalar8;
            let v143: f32 = v142 - v6;
            let v144: bool = v143 < (-104.0f);
            let v145: bool = v143 > 89.0f;
            let v146: f32 = select(v143, 89.0f, v145);
            let v147: f32 = select(v146, (-104.0f), v144);
            let v148: f32 = v147 * 1.442695f;
            let v149: f32 = round(v148);
            let v150: f32 = fma(v149, (-0.69314575f), v147);
            let v151: f32 = fma(v149, (-1.4286068e-06f), v150);
            let v152: f32 = v151 * v151;
            let v153: f32 = fma(0.0001991374f, v151, 0.0013940377f);
            let v154: f32 = fma(v153, v151, 0.008333274f);
            let v155: f32 = fma(v154, v151, 0.041666366f);
            let v156: f32 = fma(v155, v151, 0.16666667f);
            let v157: f32 = fma(v156, v151, 0.5f);
            let v158: f32 = fma(v152, v157, v151);
            let v159: f32 = 1.0f + v158;
            let v160: f32 = v149 + 1.2582912e+07f;
            let v161: u32 = bitcast<u32>(v160);
            let v162: u32 = v161 >> (1u & 31u);
            let v163: u32 = v162 + 127u;
            let v164: u32 = v163 << (u32(23u) & 31u);
            let v165: f32 = bitcast<f32>(v164);
            let v166: f32 = v159 * v165;
            let v167: u32 = v161 - v162;
            let v168: u32 = v167 + 127u;
            let v169: u32 = v168 << (u32(23u) & 31u);
            let v170: f32 = bitcast<f32>(v169);
            let v171: f32 = v166 * v170;
            let v172: f32 = select(0.0f, v171, seen0_3);
            let v173: f32 = pull0_3 - v7;
            let v174: f32 = v172 * v173;
            let v175: f32 = v174 * scalar8;
            let seen1_0: bool = row1 < size3 && swept0 < size2 && row1 <= swept0;
            let v176: f32 = score1_0 * scalar8;
            let v177: f32 = v176 - v0;
            let v178: bool = v177 < (-104.0f);
            let v179: bool = v177 > 89.0f;
            let v180: f32 = select(v177, 89.0f, v179);
            let v181: f32 = select(v180, (-104.0f), v178);
            let v182: f32 = v181 * 1.442695f;
            let v183: f32 = round(v182);
            let v184: f32 = fma(v183, (-0.69314575f), v181);
            let v185: f32 = fma(v183, (-1.4286068e-06f), v184);
            let v186: f32 = v185 * v185;
            let v187: f32 = fma(0.0001991374f, v185, 0.0013940377f);
            let v188: f32 = fma(v187, v185, 0.008333274f);
            let v189: f32 = fma(v188, v185, 0.041666366f);
            let v190: f32 = fma(v189, v185, 0.16666667f);
            let v191: f32 = fma(v190, v185, 0.5f);
            let v192: f32 = fma(v186, v191, v185);
            let v193: f32 = 1.0f + v192;
            let v194: f32 = v183 + 1.2582912e+07f;
            let v195: u32 = bitcast<u32>(v194);
            let v196: u32 = v195 >> (1u & 31u);
            let v197: u32 = v196 + 127u;
            let v198: u32 = v197 << (u32(23u) & 31u);
            let v199: f32 = bitcast<f32>(v198);
            let v200: f32 = v193 * v199;
            let v201: u32 = v195 - v196;
            let v202: u32 = v201 + 127u;
            let v203: u32 = v202 << (u32(23u) & 31u);
            let v204: f32 = bitcast<f32>(v203);
            let v205: f32 = v200 * v204;
            let v206: f32 = select(0.0f, v205, seen1_0);
            let v207: f32 = pull1_0 - v1;
            let v208: f32 = v206 * v207;
            let v209: f32 = v208 * scalar8;
            let seen1_1: bool = row1 < size3 && swept1 < size2 && row1 <= swept1;
            let v210: f32 = score1_1 * scalar8;
            let v211: f32 = v210 - v2;
            let v212: bool = v211 < (-104.0f);
            let v213: bool = v211 > 89.0f;
            let v214: f32 = select(v211, 89.0f, v213);
            let v215: f32 = select(v214, (-104.0f), v212);
            let v216: f32 = v215 * 1.442695f;
            let v217: f32 = round(v216);
            let v218: f32 = fma(v217, (-0.69314575f), v215);
            let v219: f32 = fma(v217, (-1.4286068e-06f), v218);
            let v220: f32 = v219 * v219;
            let v221: f32 = fma(0.0001991374f, v219, 0.0013940377f);
            let v222: f32 = fma(v221, v219, 0.008333274f);
            let v223: f32 = fma(v222, v219, 0.041666366f);
            let v224: f32 = fma(v223, v219, 0.16666667f);
            let v225: f32 = fma(v224, v219, 0.5f);
            let v226: f32 = fma(v220, v225, v219);
            let v227: f32 = 1.0f + v226;
            let v228: f32 = v217 + 1.2582912e+07f;
            let v229: u32 = bitcast<u32>(v228);
            let v230: u32 = v229 >> (1u & 31u);
            let v231: u32 = v230 + 127u;
            let v232: u32 = v231 << (u32(23u) & 31u);
            let v233: f32 = bitcast<f32>(v232);
            let v234: f32 = v227 * v233;
            let v235: u32 = v229 - v230;
            let v236: u32 = v235 + 127u;
            let v237: u32 = v236 << (u32(23u) & 31u);
            let v238: f32 = bitcast<f32>(v237);
            let v239: f32 = v234 * v238;
            let v240: f32 = select(0.0f, v239, seen1_1);
            let v241: f32 = pull1_1 - v3;
            let v242: f32 = v240 * v241;
            let v243: f32 = v242 * scalar8;
            let seen1_2: bool = row1 < size3 && swept2 < size2 && row1 <= swept2;
            let v244: f32 = score1_2 * scalar8;
            let v245: f32 = v244 - v4;
            let v246: bool = v245 < (-104.0f);
            let v247: bool = v245 > 89.0f;
            let v248: f32 = select(v245, 89.0f, v247);
            let v249: f32 = select(v248, (-104.0f), v246);
            let v250: f32 = v249 * 1.442695f;
            let v251: f32 = round(v250);
            let v252: f32 = fma(v251, (-0.69314575f), v249);
            let v253: f32 = fma(v251, (-1.4286068e-06f), v252);
            let v254: f32 = v253 * v253;
            let v255: f32 = fma(0.0001991374f, v253, 0.0013940377f);
            let v256: f32 = fma(v255, v253, 0.008333274f);
            let v257: f32 = fma(v256, v253, 0.041666366f);
            let v258: f32 = fma(v257, v253, 0.16666667f);
            let v259: f32 = fma(v258, v253, 0.5f);
            let v260: f32 = fma(v254, v259, v253);
            let v261: f32 = 1.0f + v260;
            let v262: f32 = v251 + 1.2582912e+07f;
            let v263: u32 = bitcast<u32>(v262);
            let v264: u32 = v263 >> (1u & 31u);
            let v265: u32 = v264 + 127u;
            let v266: u32 = v265 << (u32(23u) & 31u);
            let v267: f32 = bitcast<f32>(v266);
            let v268: f32 = v261 * v267;
            let v269: u32 = v263 - v264;
            let v270: u32 = v269 + 127u;
            let v271: u32 = v270 << (u32(23u) & 31u);
            let v272: f32 = bitcast<f32>(v271);
            let v273: f32 = v268 * v272;
            let v274: f32 = select(0.0f, v273, seen1_2);
            let v275: f32 = pull1_2 - v5;
            let v276: f32 = v274 * v275;
            let v277: f32 = v276 * scalar8;
            let seen1_3: bool = row1 < size3 && swept3 < size2 && row1 <= swept3;
            let v278: f32 = score1_3 * scalar8;
            let v279: f32 = v278 - v6;
            let v280: bool = v279 < (-104.0f);
            let v281: bool = v279 > 89.0f;
            let v282: f32 = select(v279, 89.0f, v281);
            let v283: f32 = select(v282, (-104.0f), v280);
            let v284: f32 = v283 * 1.442695f;
            let v285: f32 = round(v284);
            let v286: f32 = fma(v285, (-0.69314575f), v283);
            let v287: f32 = fma(v285, (-1.4286068e-06f), v286);
            let v288: f32 = v287 * v287;
            let v289: f32 = fma(0.0001991374f, v287, 0.0013940377f);
            let v290: f32 = fma(v289, v287, 0.008333274f);
            let v291: f32 = fma(v290, v287, 0.041666366f);
            let v292: f32 = fma(v291, v287, 0.16666667f);
            let v293: f32 = fma(v292, v287, 0.5f);
            let v294: f32 = fma(v288, v293, v287);
            let v295: f32 = 1.0f + v294;
            let v296: f32 = v285 + 1.2582912e+07f;
            let v297: u32 = bitcast<u32>(v296);
            let v298: u32 = v297 >> (1u & 31u);
            let v299: u32 = v298 + 127u;
            let v300: u32 = v299 << (u32(23u) & 31u);
            let v301: f32 = bitcast<f32>(v300);
            let v302: f32 = v295 * v301;
            let v303: u32 = v297 - v298;
            let v304: u32 = v303 + 127u;
            let v305: u32 = v304 << (u32(23u) & 31u);
            let v306: f32 = bitcast<f32>(v305);
            let v307: f32 = v302 * v306;
            let v308: f32 = select(0.0f, v307, seen1_3);
            let v309: f32 = pull1_3 - v7;
            let v310: f32 = v308 * v309;
            let v311: f32 = v310 * scalar8;
            workgroupBarrier();
            weights[(row) * 65 + column] = v70;
            weights[(row) * 65 + column + 16] = v104;
            weights[(row) * 65 + column + 32] = v138;
            weights[(row) * 65 + column + 48] = v172;
            weights[(row + 16) * 65 + column] = v206;
            weights[(row + 16) * 65 + column + 16] = v240;
            weights[(row + 16) * 65 + column + 32] = v274;
            weights[(row + 16) * 65 + column + 48] = v308;
            workgroupBarrier();
            var pulled0_0: f32 = 0.0f;
            var pulled0_1: f32 = 0.0f;
            var pulled0_2: f32 = 0.0f;
            var pulled0_3: f32 = 0.0f;
            var pulled1_0: f32 = 0.0f;
            var pulled1_1: f32 = 0.0f;
            var pulled1_2: f32 = 0.0f;
            var pulled1_3: f32 = 0.0f;
            for (var deep_start: i32 = 0; deep_start < 64; deep_start += 16) {
                for (var at: i32 = thread; at < 1024; at += threads) {
                    let free: i32 = at % 64;
                    let deep: i32 = at / 64;
                    let place: i32 = start + deep_start + deep;
                    var v312: f32 = 0.0f;
                    if (place < size2 && first_column + free < size5) { v312 = operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + place * stride3_2 + (first_column + free) * stride3_3]; }
                    right_tile[deep * 65 + free] = v312;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let v313: f32 = weights[(row) * 65 + (deep_start + k)];
                    let v314: f32 = weights[(row + 16) * 65 + (deep_start + k)];
                    let v315: f32 = right_tile[k * 65 + column];
                    let v316: f32 = right_tile[k * 65 + column + 16];
                    let v317: f32 = right_tile[k * 65 + column + 32];
                    let v318: f32 = right_tile[k * 65 + column + 48];
                    let v319: f32 = fma(v313, v315, pulled0_0);
                    pulled0_0 = v319;
                    let v320: f32 = fma(v313, v316, pulled0_1);
                    pulled0_1 = v320;
                    let v321: f32 = fma(v313, v317, pulled0_2);
                    pulled0_2 = v321;
                    let v322: f32 = fma(v313, v318, pulled0_3);
                    pulled0_3 = v322;
                    let v323: f32 = fma(v314, v315, pulled1_0);
                    pulled1_0 = v323;
                    let v324: f32 = fma(v314, v316, pulled1_1);
                    pulled1_1 = v324;
                    let v325: f32 = fma(v314, v317, pulled1_2);
                    pulled1_2 = v325;
                    let v326: f32 = fma(v314, v318, pulled1_3);
                    pulled1_3 = v326;
                }
                workgroupBarrier();
            }
            let v327: f32 = mean0_0 + pulled0_0;
            mean0_0 = v327;
            let v328: f32 = mean0_1 + pulled0_1;
            mean0_1 = v328;
            let v329: f32 = mean0_2 + pulled0_2;
            mean0_2 = v329;
            let v330: f32 = mean0_3 + pulled0_3;
            mean0_3 = v330;
            let v331: f32 = mean1_0 + pulled1_0;
            mean1_0 = v331;
            let v332: f32 = mean1_1 + pulled1_1;
            mean1_1 = v332;
            let v333: f32 = mean1_2 + pulled1_2;
            mean1_2 = v333;
            let v334: f32 = mean1_3 + pulled1_3;
            mean1_3 = v334;
            workgroupBarrier();
            weights[(row) * 65 + column] = v73;
            weights[(row) * 65 + column + 16] = v107;
            weights[(row) * 65 + column + 32] = v141;
            weights[(row) * 65 + column + 48] = v175;
            weights[(row + 16) * 65 + column] = v209;
            weights[(row + 16) * 65 + column + 16] = v243;
            weights[(row + 16) * 65 + column + 32] = v277;
            weights[(row + 16) * 65 + column + 48] = v311;
            workgroupBarrier();
            var taken0_0: f32 = 0.0f;
            var taken0_1: f32 = 0.0f;
            var taken0_2: f32 = 0.0f;
            var taken0_3: f32 = 0.0f;
            var taken1_0: f32 = 0.0f;
            var taken1_1: f32 = 0.0f;
            var taken1_2: f32 = 0.0f;
            var taken1_3: f32 = 0.0f;
            for (var deep_start: i32 = 0; deep_start < 64; deep_start += 16) {
                for (var at: i32 = thread; at < 1024; at += threads) {
                    let free: i32 = at % 64;
                    let deep: i32 = at / 64;
                    let place: i32 = start + deep_start + deep;
                    var v335: f32 = 0.0f;
                    if (place < size2 && first_column + free < size4) { v335 = operand0[offset0 + batch0 * stride0_0 + batch1 * stride0_1 + place * stride0_2 + (first_column + free) * stride0_3]; }
                    right_tile[deep * 65 + free] = v335;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let v336: f32 = weights[(row) * 65 + (deep_start + k)];
                    let v337: f32 = weights[(row + 16) * 65 + (deep_start + k)];
                    let v338: f32 = right_tile[k * 65 + column];
                    let v339: f32 = right_tile[k * 65 + column + 16];
                    let v340: f32 = right_tile[k * 65 + column + 32];
                    let v341: f32 = right_tile[k * 65 + column + 48];
                    let v342: f32 = fma(v336, v338, taken0_0);
                    taken0_0 = v342;
                    let v343: f32 = fma(v336, v339, taken0_1);
                    taken0_1 = v343;
                    let v344: f32 = fma(v336, v340, taken0_2);
                    taken0_2 = v344;
                    let v345: f32 = fma(v336, v341, taken0_3);
                    taken0_3 = v345;
                    let v346: f32 = fma(v337, v338, taken1_0);
                    taken1_0 = v346;
                    let v347: f32 = fma(v337, v339, taken1_1);
                    taken1_1 = v347;
                    let v348: f32 = fma(v337, v340, taken1_2);
                    taken1_2 = v348;
                    let v349: f32 = fma(v337, v341, taken1_3);
                    taken1_3 = v349;
                }
                workgroupBarrier();
            }
            let v350: f32 = sum0_0 + taken0_0;
            sum0_0 = v350;
            let v351: f32 = sum0_1 + taken0_1;
            sum0_1 = v351;
            let v352: f32 = sum0_2 + taken0_2;
            sum0_2 = v352;
            let v353: f32 = sum0_3 + taken0_3;
            sum0_3 = v353;
            let v354: f32 = sum1_0 + taken1_0;
            sum1_0 = v354;
            let v355: f32 = sum1_1 + taken1_1;
            sum1_1 = v355;
            let v356: f32 = sum1_2 + taken1_2;
            sum1_2 = v356;
            let v357: f32 = sum1_3 + taken1_3;
            sum1_3 = v357;
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
