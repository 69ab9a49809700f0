struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, size3: i32, size4: i32, size5: i32, offset0: i32, offset1: i32, offset2: i32, offset3: i32, offset4: i32, offset5: i32, offset6: i32, stride0_0: i32, stride0_1: i32, stride0_2: i32, stride0_3: i32, stride1_0: i32, stride1_1: i32, stride1_2: i32, stride1_3: i32, stride2_0: i32, stride2_1: i32, stride2_2: i32, stride2_3: i32, stride3_0: i32, stride3_1: i32, stride3_2: i32, stride3_3: i32, stride4_0: i32, stride4_1: i32, stride4_2: i32, stride5_0: i32, stride5_1: i32, stride5_2: i32, stride6_0: i32, stride6_1: i32, stride6_2: i32, stride6_3: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar7: f32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read> operand1: array<f32>;
@group(0) @binding(4) var<storage, read> operand2: array<f32>;
@group(0) @binding(5) var<storage, read> operand3: array<f32>;
@group(0) @binding(6) var<storage, read> operand4: array<f32>;
@group(0) @binding(7) var<storage, read> operand5: array<f32>;
@group(0) @binding(8) var<storage, read_write> operand6: array<f32>;
var<workgroup> left_tile: array<f32, 528>;
var<workgroup> right_tile: array<f32, 1040>;
var<workgroup> weights: array<f32, 2080>;

@compute @workgroup_size(256)
fn attention_query_causal_float32_float32(
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
    let scalar7: f32 = scalars.scalar7;
    let row_tiles: i32 = (size2 + 31) / 32;
    let column_tiles: i32 = (size4 + 63) / 64;
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
        var v0: f32 = 0.0f;
        if (row0 < size2) { v0 = operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + row0 * stride4_2]; }
        var v1: f32 = 0.0f;
        if (row0 < size2) { v1 = operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + row0 * stride5_2]; }
        var v2: f32 = 0.0f;
        if (row1 < size2) { v2 = operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + row1 * stride4_2]; }
        var v3: f32 = 0.0f;
        if (row1 < size2) { v3 = operand5[offset5 + batch0 * stride5_0 + batch1 * stride5_1 + row1 * stride5_2]; }
        var sum0_0: f32 = 0.0f;
        var sum0_1: f32 = 0.0f;
        var sum0_2: f32 = 0.0f;
        var sum0_3: f32 = 0.0f;
        var sum1_0: f32 = 0.0f;
        var sum1_1: f32 = 0.0f;
        var sum1_2: f32 = 0.0f;
        var sum1_3: f32 = 0.0f;
        let last: i32 = min(size3, first_row + 32);
        for (var start: i32 = 0; start < last; start += 64) {
            let swept0: i32 = start + column;
            let swept1: i32 = start + column + 16;
            let swept2: i32 = start + column + 32;
            let swept3: i32 = start + column + 48;
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
                    var v4: f32 = 0.0f;
                    if (first_row + free < size2 && deep_start + deep < size4) { v4 = operand0[offset0 + batch0 * stride0_0 + batch1 * stride0_1 + (first_row + free) * stride0_2 + (deep_start + deep) * stride0_3]; }
                    left_tile[deep * 33 + free] = v4;
                }
                for (var at: i32 = thread; at < 1024; at += threads) {
                    let free: i32 = at / 16;
                    let deep: i32 = at % 16;
                    var v5: f32 = 0.0f;
                    if (start + free < size3 && deep_start + deep < size4) { v5 = operand1[offset1 + batch0 * stride1_0 + batch1 * stride1_1 + (start + free) * stride1_2 + (deep_start + deep) * stride1_3]; }
                    right_tile[deep * 65 + free] = v5;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let v6: f32 = left_tile[k * 33 + row];
                    let v7: f32 = left_tile[k * 33 + row + 16];
                    let v8: f32 = right_tile[k * 65 + column];
                    let v9: f32 = right_tile[k * 65 + column + 16];
                    let v10: f32 = right_tile[k * 65 + column + 32];
                    let v11: f32 = right_tile[k * 65 + column + 48];
                    let v12: f32 = fma(v6, v8, score0_0);
                    score0_0 = v12;
                    let v13: f32 = fma(v6, v9, score0_1);
                    score0_1 = v13;
                    let v14: f32 = fma(v6, v10, score0_2);
                    score0_2 = v14;
                    let v15: f32 = fma(v6, v11, score0_3);
                    score0_3 = v15;
                    let v16: f32 = fma(v7, v8, score1_0);
                    score1_0 = v16;
                    let v17: f32 = fma(v7, v9, score1_1);
                    score1_1 = v17;
                    let v18: f32 = fma(v7, v10, score1_2);
                    score1_2 = v18;
                    let v19: f32 = fma(v7, v11, score1_3);
                    score1_3 = v19;
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
                    var v20: f32 = 0.0f;
                    if (first_row + free < size2 && deep_start + deep < size5) { v20 = operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + (first_row + free) * stride3_2 + (deep_start + deep) * stride3_3]; }
                    left_tile[deep * 33 + free] = v20;
                }
                for (var at: i32 = thread; at < 1024; at += threads) {
                    let free: i32 = at / 16;
                    let deep: i32 = at % 16;
                    var v21: f32 = 0.0f;
                    if (start + free < size3 && deep_start + deep < size5) { v21 = operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + (start + free) * stride2_2 + (deep_start + deep) * stride2_3]; }
                    right_tile[deep * 65 + free] = v21;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let v22: f32 = left_tile[k * 33 + row];
                    let v23: f32 = left_tile[k * 33 + row + 16];
                    let v24: f32 = right_tile[k * 65 + column];
                    let v25: f32 = right_tile[k * 65 + column + 16];
                    let v26: f32 = right_tile[k * 65 + column + 32];
                    let v27: f32 = right_tile[k * 65 + column + 48];
                    let v28: f32 = fma(v22, v24, pull0_0);
                    pull0_0 = v28;
                    let v29: f32 = fma(v22, v25, pull0_1);
                    pull0_1 = v29;
                    let v30: f32 = fma(v22, v26, pull0_2);
                    pull0_2 = v30;
                    let v31: f32 = fma(v22, v27, pull0_3);
                    pull0_3 = v31;
                    let v32: f32 = fma(v23, v24, pull1_0);
                    pull1_0 = v32;
                    let v33: f32 = fma(v23, v25, pull1_1);
                    pull1_1 = v33;
                    let v34: f32 = fma(v23, v26, pull1_2);
                    pull1_2 = v34;
                    let v35: f32 = fma(v23, v27, pull1_3);
                    pull1_3 = v35;
                }
                workgroupBarrier();
            }
            let seen0_0: bool = row0 < size2 && swept0 < size3 && swept0 <= row0;
            let v36: f32 = score0_0 * scalar7;
            let v37: f32 = v36 - v0;
            let v38: f32 = select(clamp(v37, (-104.0f), 89.0f), v37, (bitcast<u32>(v37) & 0x7fffffffu) > 0x7f800000u);
            let v39: f32 = v38 * 1.442695f;
            let v40: f32 = round(v39);
            let v41: f32 = fma(v40, (-0.69314575f), v38);
            let v42: f32 = fma(v40, (-1.4286068e-06f), v41);
            let v43: f32 = v42 * v42;
            let v44: f32 = fma(0.0001991374f, v42, 0.0013940377f);
            let v45: f32 = fma(v44, v42, 0.008333274f);
            let v46: f32 = fma(v45, v42, 0.041666366f);
            let v47: f32 = fma(v46, v42, 0.16666667f);
            let v48: f32 = fma(v47, v42, 0.5f);
            let v49: f32 = fma(v43, v48, v42);
            let v50: f32 = 1.0f + v49;
            let v51: f32 = v40 + 1.2582912e+07f;
            let v52: u32 = bitcast<u32>(v51);
            let v53: u32 = v52 >> (1u & 31u);
            let v54: u32 = v53 + 127u;
            let v55: u32 = v54 << (u32(23u) & 31u);
            let v56: f32 = bitcast<f32>(v55);
            let v57: f32 = v50 * v56;
            let v58: u32 = v52 - v53;
            let v59: u32 = v58 + 127u;
            let v60: u32 = v59 << (u32(23u) & 31u);
            let v61: f32 = bitcast<f32>(v60);
            let v62: f32 = v57 * v61;
            let v63: f32 = select(0.0f, v62, seen0_0);
            let v64: f32 = pull0_0 - v1;
            let v65: f32 = v63 * v64;
            let v66: f32 = v65 * scalar7;
            let seen0_1: bool = row0 < size2 && swept1 < size3 && swept1 <= row0;
            let v67: f32 = score0_1 * scalar7;
            let v68: f32 = v67 - v0;
            let v69: f32 = select(clamp(v68, (-104.0f), 89.0f), v68, (bitcast<u32>(v68) & 0x7fffffffu) > 0x7f800000u);
            let v70: f32 = v69 * 1.442695f;
            let v71: f32 = round(v70);
            let v72: f32 = fma(v71, (-0.69314575f), v69);
            let v73: f32 = fma(v71, (-1.4286068e-06f), v72);
            let v74: f32 = v73 * v73;
            let v75: f32 = fma(0.0001991374f, v73, 0.0013940377f);
            let v76: f32 = fma(v75, v73, 0.008333274f);
            let v77: f32 = fma(v76, v73, 0.041666366f);
            let v78: f32 = fma(v77, v73, 0.16666667f);
            let v79: f32 = fma(v78, v73, 0.5f);
            let v80: f32 = fma(v74, v79, v73);
            let v81: f32 = 1.0f + v80;
            let v82: f32 = v71 + 1.2582912e+07f;
            let v83: u32 = bitcast<u32>(v82);
            let v84: u32 = v83 >> (1u & 31u);
            let v85: u32 = v84 + 127u;
            let v86: u32 = v85 << (u32(23u) & 31u);
            let v87: f32 = bitcast<f32>(v86);
            let v88: f32 = v81 * v87;
            let v89: u32 = v83 - v84;
            let v90: u32 = v89 + 127u;
            let v91: u32 = v90 << (u32(23u) & 31u);
            let v92: f32 = bitcast<f32>(v91);
            let v93: f32 = v88 * v92;
            let v94: f32 = select(0.0f, v93, seen0_1);
            let v95: f32 = pull0_1 - v1;
            let v96: f32 = v94 * v95;
            let v97: f32 = v96 * scalar7;
            let seen0_2: bool = row0 < size2 && swept2 < size3 && swept2 <= row0;
            let v98: f32 = score0_2 * scalar7;
            let v99: f32 = v98 - v0;
            let v100: f32 = select(clamp(v99, (-104.0f), 89.0f), v99, (bitcast<u32>(v99) & 0x7fffffffu) > 0x7f800000u);
            let v101: f32 = v100 * 1.442695f;
            let v102: f32 = round(v101);
            let v103: f32 = fma(v102, (-0.69314575f), v100);
            let v104: f32 = fma(v102, (-1.4286068e-06f), v103);
            let v105: f32 = v104 * v104;
            let v106: f32 = fma(0.0001991374f, v104, 0.0013940377f);
            let v107: f32 = fma(v106, v104, 0.008333274f);
            let v108: f32 = fma(v107, v104, 0.041666366f);
            let v109: f32 = fma(v108, v104, 0.16666667f);
            let v110: f32 = fma(v109, v104, 0.5f);
            let v111: f32 = fma(v105, v110, v104);
            let v112: f32 = 1.0f + v111;
            let v113: f32 = v102 + 1.2582912e+07f;
            let v114: u32 = bitcast<u32>(v113);
            let v115: u32 = v114 >> (1u & 31u);
            let v116: u32 = v115 + 127u;
            let v117: u32 = v116 << (u32(23u) & 31u);
            let v118: f32 = bitcast<f32>(v117);
            let v119: f32 = v112 * v118;
            let v120: u32 = v114 - v115;
            let v121: u32 = v120 + 127u;
            let v122: u32 = v121 << (u32(23u) & 31u);
            let v123: f32 = bitcast<f32>(v122);
            let v124: f32 = v119 * v123;
            let v125: f32 = select(0.0f, v124, seen0_2);
            let v126: f32 = pull0_2 - v1;
            let v127: f32 = v125 * v126;
            let v128: f32 = v127 * scalar7;
            let seen0_3: bool = row0 < size2 && swept3 < size3 && swept3 <= row0;
            let v129: f32 = score0_3 * scalar7;
            let v130: f32 = v129 - v0;
            let v131: f32 = select(clamp(v130, (-104.0f), 89.0f), v130, (bitcast<u32>(v130) & 0x7fffffffu) > 0x7f800000u);
            let v132: f32 = v131 * 1.442695f;
            let v133: f32 = round(v132);
            let v134: f32 = fma(v133, (-0.69314575f), v131);
            let v135: f32 = fma(v133, (-1.4286068e-06f), v134);
            let v136: f32 = v135 * v135;
            let v137: f32 = fma(0.0001991374f, v135, 0.0013940377f);
            let v138: f32 = fma(v137, v135, 0.008333274f);
            let v139: f32 = fma(v138, v135, 0.041666366f);
            let v140: f32 = fma(v139, v135, 0.16666667f);
            let v141: f32 = fma(v140, v135, 0.5f);
            let v142: f32 = fma(v136, v141, v135);
            let v143: f32 = 1.0f + v142;
            let v144: f32 = v133 + 1.2582912e+07f;
            let v145: u32 = bitcast<u32>(v144);
            let v146: u32 = v145 >> (1u & 31u);
            let v147: u32 = v146 + 127u;
            let v148: u32 = v147 << (u32(23u) & 31u);
            let v149: f32 = bitcast<f32>(v148);
            let v150: f32 = v143 * v149;
            let v151: u32 = v145 - v146;
            let v152: u32 = v151 + 127u;
            let v153: u32 = v152 << (u32(23u) & 31u);
            let v154: f32 = bitcast<f32>(v153);
            let v155: f32 = v150 * v154;
            let v156: f32 = select(0.0f, v155, seen0_3);
            let v157: f32 = pull0_3 - v1;
            let v158: f32 = v156 * v157;
            let v159: f32 = v158 * scalar7;
            let seen1_0: bool = row1 < size2 && swept0 < size3 && swept0 <= row1;
            let v160: f32 = score1_0 * scalar7;
            let v161: f32 = v160 - v2;
            let v162: f32 = select(clamp(v161, (-104.0f), 89.0f), v161, (bitcast<u32>(v161) & 0x7fffffffu) > 0x7f800000u);
            let v163: f32 = v162 * 1.442695f;
            let v164: f32 = round(v163);
            let v165: f32 = fma(v164, (-0.69314575f), v162);
            let v166: f32 = fma(v164, (-1.4286068e-06f), v165);
            let v167: f32 = v166 * v166;
            let v168: f32 = fma(0.0001991374f, v166, 0.0013940377f);
            let v169: f32 = fma(v168, v166, 0.008333274f);
            let v170: f32 = fma(v169, v166, 0.041666366f);
            let v171: f32 = fma(v170, v166, 0.16666667f);
            let v172: f32 = fma(v171, v166, 0.5f);
            let v173: f32 = fma(v167, v172, v166);
            let v174: f32 = 1.0f + v173;
            let v175: f32 = v164 + 1.2582912e+07f;
            let v176: u32 = bitcast<u32>(v175);
            let v177: u32 = v176 >> (1u & 31u);
            let v178: u32 = v177 + 127u;
            let v179: u32 = v178 << (u32(23u) & 31u);
            let v180: f32 = bitcast<f32>(v179);
            let v181: f32 = v174 * v180;
            let v182: u32 = v176 - v177;
            let v183: u32 = v182 + 127u;
            let v184: u32 = v183 << (u32(23u) & 31u);
            let v185: f32 = bitcast<f32>(v184);
            let v186: f32 = v181 * v185;
            let v187: f32 = select(0.0f, v186, seen1_0);
            let v188: f32 = pull1_0 - v3;
            let v189: f32 = v187 * v188;
            let v190: f32 = v189 * scalar7;
            let seen1_1: bool = row1 < size2 && swept1 < size3 && swept1 <= row1;
            let v191: f32 = score1_1 * scalar7;
            let v192: f32 = v191 - v2;
            let v193: f32 = select(clamp(v192, (-104.0f), 89.0f), v192, (bitcast<u32>(v192) & 0x7fffffffu) > 0x7f800000u);
            let v194: f32 = v193 * 1.442695f;
            let v195: f32 = round(v194);
            let v196: f32 = fma(v195, (-0.69314575f), v193);
            let v197: f32 = fma(v195, (-1.4286068e-06f), v196);
            let v198: f32 = v197 * v197;
            let v199: f32 = fma(0.0001991374f, v197, 0.0013940377f);
            let v200: f32 = fma(v199, v197, 0.008333274f);
            let v201: f32 = fma(v200, v197, 0.041666366f);
            let v202: f32 = fma(v201, v197, 0.16666667f);
            let v203: f32 = fma(v202, v197, 0.5f);
            let v204: f32 = fma(v198, v203, v197);
            let v205: f32 = 1.0f + v204;
            let v206: f32 = v195 + 1.2582912e+07f;
            let v207: u32 = bitcast<u32>(v206);
            let v208: u32 = v207 >> (1u & 31u);
            let v209: u32 = v208 + 127u;
            let v210: u32 = v209 << (u32(23u) & 31u);
            let v211: f32 = bitcast<f32>(v210);
            let v212: f32 = v205 * v211;
            let v213: u32 = v207 - v208;
            let v214: u32 = v213 + 127u;
            let v215: u32 = v214 << (u32(23u) & 31u);
            let v216: f32 = bitcast<f32>(v215);
            let v217: f32 = v212 * v216;
            let v218: f32 = select(0.0f, v217, seen1_1);
            let v219: f32 = pull1_1 - v3;
            let v220: f32 = v218 * v219;
            let v221: f32 = v220 * scalar7;
            let seen1_2: bool = row1 < size2 && swept2 < size3 && swept2 <= row1;
            let v222: f32 = score1_2 * scalar7;
            let v223: f32 = v222 - v2;
            let v224: f32 = select(clamp(v223, (-104.0f), 89.0f), v223, (bitcast<u32>(v223) & 0x7fffffffu) > 0x7f800000u);
            let v225: f32 = v224 * 1.442695f;
            let v226: f32 = round(v225);
            let v227: f32 = fma(v226, (-0.69314575f), v224);
            let v228: f32 = fma(v226, (-1.4286068e-06f), v227);
            let v229: f32 = v228 * v228;
            let v230: f32 = fma(0.0001991374f, v228, 0.0013940377f);
            let v231: f32 = fma(v230, v228, 0.008333274f);
            let v232: f32 = fma(v231, v228, 0.041666366f);
            let v233: f32 = fma(v232, v228, 0.16666667f);
            let v234: f32 = fma(v233, v228, 0.5f);
            let v235: f32 = fma(v229, v234, v228);
            let v236: f32 = 1.0f + v235;
            let v237: f32 = v226 + 1.2582912e+07f;
            let v238: u32 = bitcast<u32>(v237);
            let v239: u32 = v238 >> (1u & 31u);
            let v240: u32 = v239 + 127u;
            let v241: u32 = v240 << (u32(23u) & 31u);
            let v242: f32 = bitcast<f32>(v241);
            let v243: f32 = v236 * v242;
            let v244: u32 = v238 - v239;
            let v245: u32 = v244 + 127u;
            let v246: u32 = v245 << (u32(23u) & 31u);
            let v247: f32 = bitcast<f32>(v246);
            let v248: f32 = v243 * v247;
            let v249: f32 = select(0.0f, v248, seen1_2);
            let v250: f32 = pull1_2 - v3;
            let v251: f32 = v249 * v250;
            let v252: f32 = v251 * scalar7;
            let seen1_3: bool = row1 < size2 && swept3 < size3 && swept3 <= row1;
            let v253: f32 = score1_3 * scalar7;
            let v254: f32 = v253 - v2;
            let v255: f32 = select(clamp(v254, (-104.0f), 89.0f), v254, (bitcast<u32>(v254) & 0x7fffffffu) > 0x7f800000u);
            let v256: f32 = v255 * 1.442695f;
            let v257: f32 = round(v256);
            let v258: f32 = fma(v257, (-0.69314575f), v255);
            let v259: f32 = fma(v257, (-1.4286068e-06f), v258);
            let v260: f32 = v259 * v259;
            let v261: f32 = fma(0.0001991374f, v259, 0.0013940377f);
            let v262: f32 = fma(v261, v259, 0.008333274f);
            let v263: f32 = fma(v262, v259, 0.041666366f);
            let v264: f32 = fma(v263, v259, 0.16666667f);
            let v265: f32 = fma(v264, v259, 0.5f);
            let v266: f32 = fma(v260, v265, v259);
            let v267: f32 = 1.0f + v266;
            let v268: f32 = v257 + 1.2582912e+07f;
            let v269: u32 = bitcast<u32>(v268);
            let v270: u32 = v269 >> (1u & 31u);
            let v271: u32 = v270 + 127u;
            let v272: u32 = v271 << (u32(23u) & 31u);
            let v273: f32 = bitcast<f32>(v272);
            let v274: f32 = v267 * v273;
            let v275: u32 = v269 - v270;
            let v276: u32 = v275 + 127u;
            let v277: u32 = v276 << (u32(23u) & 31u);
            let v278: f32 = bitcast<f32>(v277);
            let v279: f32 = v274 * v278;
            let v280: f32 = select(0.0f, v279, seen1_3);
            let v281: f32 = pull1_3 - v3;
            let v282: f32 = v280 * v281;
            let v283: f32 = v282 * scalar7;
            workgroupBarrier();
            weights[(row) * 65 + column] = v66;
            weights[(row) * 65 + column + 16] = v97;
            weights[(row) * 65 + column + 32] = v128;
            weights[(row) * 65 + column + 48] = v159;
            weights[(row + 16) * 65 + column] = v190;
            weights[(row + 16) * 65 + column + 16] = v221;
            weights[(row + 16) * 65 + column + 32] = v252;
            weights[(row + 16) * 65 + column + 48] = v283;
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
                    var v284: f32 = 0.0f;
                    if (place < size3 && first_column + free < size4) { v284 = operand1[offset1 + batch0 * stride1_0 + batch1 * stride1_1 + place * stride1_2 + (first_column + free) * stride1_3]; }
                    right_tile[deep * 65 + free] = v284;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let v285: f32 = weights[(row) * 65 + (deep_start + k)];
                    let v286: f32 = weights[(row + 16) * 65 + (deep_start + k)];
                    let v287: f32 = right_tile[k * 65 + column];
                    let v288: f32 = right_tile[k * 65 + column + 16];
                    let v289: f32 = right_tile[k * 65 + column + 32];
                    let v290: f32 = right_tile[k * 65 + column + 48];
                    let v291: f32 = fma(v285, v287, taken0_0);
                    taken0_0 = v291;
                    let v292: f32 = fma(v285, v288, taken0_1);
                    taken0_1 = v292;
                    let v293: f32 = fma(v285, v289, taken0_2);
                    taken0_2 = v293;
                    let v294: f32 = fma(v285, v290, taken0_3);
                    taken0_3 = v294;
                    let v295: f32 = fma(v286, v287, taken1_0);
                    taken1_0 = v295;
                    let v296: f32 = fma(v286, v288, taken1_1);
                    taken1_1 = v296;
                    let v297: f32 = fma(v286, v289, taken1_2);
                    taken1_2 = v297;
                    let v298: f32 = fma(v286, v290, taken1_3);
                    taken1_3 = v298;
                }
                workgroupBarrier();
            }
            let v299: f32 = sum0_0 + taken0_0;
            sum0_0 = v299;
            let v300: f32 = sum0_1 + taken0_1;
            sum0_1 = v300;
            let v301: f32 = sum0_2 + taken0_2;
            sum0_2 = v301;
            let v302: f32 = sum0_3 + taken0_3;
            sum0_3 = v302;
            let v303: f32 = sum1_0 + taken1_0;
            sum1_0 = v303;
            let v304: f32 = sum1_1 + taken1_1;
            sum1_1 = v304;
            let v305: f32 = sum1_2 + taken1_2;
            sum1_2 = v305;
            let v306: f32 = sum1_3 + taken1_3;
            sum1_3 = v306;
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
