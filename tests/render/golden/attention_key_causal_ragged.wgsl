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
            let v42: f32 = select(clamp(v41, (-104.0f), 89.0f), v41, (bitcast<u32>(v41) & 0x7fffffffu) > 0x7f800000u);
            let v43: f32 = v42 * 1.442695f;
            let v44: f32 = round(v43);
            let v45: f32 = fma(v44, (-0.69314575f), v42);
            let v46: f32 = fma(v44, (-1.4286068e-06f), v45);
            let v47: f32 = v46 * v46;
            let v48: f32 = fma(0.0001991374f, v46, 0.0013940377f);
            let v49: f32 = fma(v48, v46, 0.008333274f);
            let v50: f32 = fma(v49, v46, 0.041666366f);
            let v51: f32 = fma(v50, v46, 0.16666667f);
            let v52: f32 = fma(v51, v46, 0.5f);
            let v53: f32 = fma(v47, v52, v46);
            let v54: f32 = 1.0f + v53;
            let v55: f32 = v44 + 1.2582912e+07f;
            let v56: u32 = bitcast<u32>(v55);
            let v57: u32 = v56 >> (1u & 31u);
            let v58: u32 = v57 + 127u;
            let v59: u32 = v58 << (u32(23u) & 31u);
            let v60: f32 = bitcast<f32>(v59);
            let v61: f32 = v54 * v60;
            let v62: u32 = v56 - v57;
            let v63: u32 = v62 + 127u;
            let v64: u32 = v63 << (u32(23u) & 31u);
            let v65: f32 = bitcast<f32>(v64);
            let v66: f32 = v61 * v65;
            let v67: f32 = select(0.0f, v66, seen0_0);
            let v68: f32 = pull0_0 - v1;
            let v69: f32 = v67 * v68;
            let v70: f32 = v69 * scalar8;
            let seen0_1: bool = row0 < size3 && swept1 < size2 && row0 <= swept1;
            let v71: f32 = score0_1 * scalar8;
            let v72: f32 = v71 - v2;
            let v73: f32 = select(clamp(v72, (-104.0f), 89.0f), v72, (bitcast<u32>(v72) & 0x7fffffffu) > 0x7f800000u);
            let v74: f32 = v73 * 1.442695f;
            let v75: f32 = round(v74);
            let v76: f32 = fma(v75, (-0.69314575f), v73);
            let v77: f32 = fma(v75, (-1.4286068e-06f), v76);
            let v78: f32 = v77 * v77;
            let v79: f32 = fma(0.0001991374f, v77, 0.0013940377f);
            let v80: f32 = fma(v79, v77, 0.008333274f);
            let v81: f32 = fma(v80, v77, 0.041666366f);
            let v82: f32 = fma(v81, v77, 0.16666667f);
            let v83: f32 = fma(v82, v77, 0.5f);
            let v84: f32 = fma(v78, v83, v77);
            let v85: f32 = 1.0f + v84;
            let v86: f32 = v75 + 1.2582912e+07f;
            let v87: u32 = bitcast<u32>(v86);
            let v88: u32 = v87 >> (1u & 31u);
            let v89: u32 = v88 + 127u;
            let v90: u32 = v89 << (u32(23u) & 31u);
            let v91: f32 = bitcast<f32>(v90);
            let v92: f32 = v85 * v91;
            let v93: u32 = v87 - v88;
            let v94: u32 = v93 + 127u;
            let v95: u32 = v94 << (u32(23u) & 31u);
            let v96: f32 = bitcast<f32>(v95);
            let v97: f32 = v92 * v96;
            let v98: f32 = select(0.0f, v97, seen0_1);
            let v99: f32 = pull0_1 - v3;
            let v100: f32 = v98 * v99;
            let v101: f32 = v100 * scalar8;
            let seen0_2: bool = row0 < size3 && swept2 < size2 && row0 <= swept2;
            let v102: f32 = score0_2 * scalar8;
            let v103: f32 = v102 - v4;
            let v104: f32 = select(clamp(v103, (-104.0f), 89.0f), v103, (bitcast<u32>(v103) & 0x7fffffffu) > 0x7f800000u);
            let v105: f32 = v104 * 1.442695f;
            let v106: f32 = round(v105);
            let v107: f32 = fma(v106, (-0.69314575f), v104);
            let v108: f32 = fma(v106, (-1.4286068e-06f), v107);
            let v109: f32 = v108 * v108;
            let v110: f32 = fma(0.0001991374f, v108, 0.0013940377f);
            let v111: f32 = fma(v110, v108, 0.008333274f);
            let v112: f32 = fma(v111, v108, 0.041666366f);
            let v113: f32 = fma(v112, v108, 0.16666667f);
            let v114: f32 = fma(v113, v108, 0.5f);
            let v115: f32 = fma(v109, v114, v108);
            let v116: f32 = 1.0f + v115;
            let v117: f32 = v106 + 1.2582912e+07f;
            let v118: u32 = bitcast<u32>(v117);
            let v119: u32 = v118 >> (1u & 31u);
            let v120: u32 = v119 + 127u;
            let v121: u32 = v120 << (u32(23u) & 31u);
            let v122: f32 = bitcast<f32>(v121);
            let v123: f32 = v116 * v122;
            let v124: u32 = v118 - v119;
            let v125: u32 = v124 + 127u;
            let v126: u32 = v125 << (u32(23u) & 31u);
            let v127: f32 = bitcast<f32>(v126);
            let v128: f32 = v123 * v127;
            let v129: f32 = select(0.0f, v128, seen0_2);
            let v130: f32 = pull0_2 - v5;
            let v131: f32 = v129 * v130;
            let v132: f32 = v131 * scalar8;
            let seen0_3: bool = row0 < size3 && swept3 < size2 && row0 <= swept3;
            let v133: f32 = score0_3 * scalar8;
            let v134: f32 = v133 - v6;
            let v135: f32 = select(clamp(v134, (-104.0f), 89.0f), v134, (bitcast<u32>(v134) & 0x7fffffffu) > 0x7f800000u);
            let v136: f32 = v135 * 1.442695f;
            let v137: f32 = round(v136);
            let v138: f32 = fma(v137, (-0.69314575f), v135);
            let v139: f32 = fma(v137, (-1.4286068e-06f), v138);
            let v140: f32 = v139 * v139;
            let v141: f32 = fma(0.0001991374f, v139, 0.0013940377f);
            let v142: f32 = fma(v141, v139, 0.008333274f);
            let v143: f32 = fma(v142, v139, 0.041666366f);
            let v144: f32 = fma(v143, v139, 0.16666667f);
            let v145: f32 = fma(v144, v139, 0.5f);
            let v146: f32 = fma(v140, v145, v139);
            let v147: f32 = 1.0f + v146;
            let v148: f32 = v137 + 1.2582912e+07f;
            let v149: u32 = bitcast<u32>(v148);
            let v150: u32 = v149 >> (1u & 31u);
            let v151: u32 = v150 + 127u;
            let v152: u32 = v151 << (u32(23u) & 31u);
            let v153: f32 = bitcast<f32>(v152);
            let v154: f32 = v147 * v153;
            let v155: u32 = v149 - v150;
            let v156: u32 = v155 + 127u;
            let v157: u32 = v156 << (u32(23u) & 31u);
            let v158: f32 = bitcast<f32>(v157);
            let v159: f32 = v154 * v158;
            let v160: f32 = select(0.0f, v159, seen0_3);
            let v161: f32 = pull0_3 - v7;
            let v162: f32 = v160 * v161;
            let v163: f32 = v162 * scalar8;
            let seen1_0: bool = row1 < size3 && swept0 < size2 && row1 <= swept0;
            let v164: f32 = score1_0 * scalar8;
            let v165: f32 = v164 - v0;
            let v166: f32 = select(clamp(v165, (-104.0f), 89.0f), v165, (bitcast<u32>(v165) & 0x7fffffffu) > 0x7f800000u);
            let v167: f32 = v166 * 1.442695f;
            let v168: f32 = round(v167);
            let v169: f32 = fma(v168, (-0.69314575f), v166);
            let v170: f32 = fma(v168, (-1.4286068e-06f), v169);
            let v171: f32 = v170 * v170;
            let v172: f32 = fma(0.0001991374f, v170, 0.0013940377f);
            let v173: f32 = fma(v172, v170, 0.008333274f);
            let v174: f32 = fma(v173, v170, 0.041666366f);
            let v175: f32 = fma(v174, v170, 0.16666667f);
            let v176: f32 = fma(v175, v170, 0.5f);
            let v177: f32 = fma(v171, v176, v170);
            let v178: f32 = 1.0f + v177;
            let v179: f32 = v168 + 1.2582912e+07f;
            let v180: u32 = bitcast<u32>(v179);
            let v181: u32 = v180 >> (1u & 31u);
            let v182: u32 = v181 + 127u;
            let v183: u32 = v182 << (u32(23u) & 31u);
            let v184: f32 = bitcast<f32>(v183);
            let v185: f32 = v178 * v184;
            let v186: u32 = v180 - v181;
            let v187: u32 = v186 + 127u;
            let v188: u32 = v187 << (u32(23u) & 31u);
            let v189: f32 = bitcast<f32>(v188);
            let v190: f32 = v185 * v189;
            let v191: f32 = select(0.0f, v190, seen1_0);
            let v192: f32 = pull1_0 - v1;
            let v193: f32 = v191 * v192;
            let v194: f32 = v193 * scalar8;
            let seen1_1: bool = row1 < size3 && swept1 < size2 && row1 <= swept1;
            let v195: f32 = score1_1 * scalar8;
            let v196: f32 = v195 - v2;
            let v197: f32 = select(clamp(v196, (-104.0f), 89.0f), v196, (bitcast<u32>(v196) & 0x7fffffffu) > 0x7f800000u);
            let v198: f32 = v197 * 1.442695f;
            let v199: f32 = round(v198);
            let v200: f32 = fma(v199, (-0.69314575f), v197);
            let v201: f32 = fma(v199, (-1.4286068e-06f), v200);
            let v202: f32 = v201 * v201;
            let v203: f32 = fma(0.0001991374f, v201, 0.0013940377f);
            let v204: f32 = fma(v203, v201, 0.008333274f);
            let v205: f32 = fma(v204, v201, 0.041666366f);
            let v206: f32 = fma(v205, v201, 0.16666667f);
            let v207: f32 = fma(v206, v201, 0.5f);
            let v208: f32 = fma(v202, v207, v201);
            let v209: f32 = 1.0f + v208;
            let v210: f32 = v199 + 1.2582912e+07f;
            let v211: u32 = bitcast<u32>(v210);
            let v212: u32 = v211 >> (1u & 31u);
            let v213: u32 = v212 + 127u;
            let v214: u32 = v213 << (u32(23u) & 31u);
            let v215: f32 = bitcast<f32>(v214);
            let v216: f32 = v209 * v215;
            let v217: u32 = v211 - v212;
            let v218: u32 = v217 + 127u;
            let v219: u32 = v218 << (u32(23u) & 31u);
            let v220: f32 = bitcast<f32>(v219);
            let v221: f32 = v216 * v220;
            let v222: f32 = select(0.0f, v221, seen1_1);
            let v223: f32 = pull1_1 - v3;
            let v224: f32 = v222 * v223;
            let v225: f32 = v224 * scalar8;
            let seen1_2: bool = row1 < size3 && swept2 < size2 && row1 <= swept2;
            let v226: f32 = score1_2 * scalar8;
            let v227: f32 = v226 - v4;
            let v228: f32 = select(clamp(v227, (-104.0f), 89.0f), v227, (bitcast<u32>(v227) & 0x7fffffffu) > 0x7f800000u);
            let v229: f32 = v228 * 1.442695f;
            let v230: f32 = round(v229);
            let v231: f32 = fma(v230, (-0.69314575f), v228);
            let v232: f32 = fma(v230, (-1.4286068e-06f), v231);
            let v233: f32 = v232 * v232;
            let v234: f32 = fma(0.0001991374f, v232, 0.0013940377f);
            let v235: f32 = fma(v234, v232, 0.008333274f);
            let v236: f32 = fma(v235, v232, 0.041666366f);
            let v237: f32 = fma(v236, v232, 0.16666667f);
            let v238: f32 = fma(v237, v232, 0.5f);
            let v239: f32 = fma(v233, v238, v232);
            let v240: f32 = 1.0f + v239;
            let v241: f32 = v230 + 1.2582912e+07f;
            let v242: u32 = bitcast<u32>(v241);
            let v243: u32 = v242 >> (1u & 31u);
            let v244: u32 = v243 + 127u;
            let v245: u32 = v244 << (u32(23u) & 31u);
            let v246: f32 = bitcast<f32>(v245);
            let v247: f32 = v240 * v246;
            let v248: u32 = v242 - v243;
            let v249: u32 = v248 + 127u;
            let v250: u32 = v249 << (u32(23u) & 31u);
            let v251: f32 = bitcast<f32>(v250);
            let v252: f32 = v247 * v251;
            let v253: f32 = select(0.0f, v252, seen1_2);
            let v254: f32 = pull1_2 - v5;
            let v255: f32 = v253 * v254;
            let v256: f32 = v255 * scalar8;
            let seen1_3: bool = row1 < size3 && swept3 < size2 && row1 <= swept3;
            let v257: f32 = score1_3 * scalar8;
            let v258: f32 = v257 - v6;
            let v259: f32 = select(clamp(v258, (-104.0f), 89.0f), v258, (bitcast<u32>(v258) & 0x7fffffffu) > 0x7f800000u);
            let v260: f32 = v259 * 1.442695f;
            let v261: f32 = round(v260);
            let v262: f32 = fma(v261, (-0.69314575f), v259);
            let v263: f32 = fma(v261, (-1.4286068e-06f), v262);
            let v264: f32 = v263 * v263;
            let v265: f32 = fma(0.0001991374f, v263, 0.0013940377f);
            let v266: f32 = fma(v265, v263, 0.008333274f);
            let v267: f32 = fma(v266, v263, 0.041666366f);
            let v268: f32 = fma(v267, v263, 0.16666667f);
            let v269: f32 = fma(v268, v263, 0.5f);
            let v270: f32 = fma(v264, v269, v263);
            let v271: f32 = 1.0f + v270;
            let v272: f32 = v261 + 1.2582912e+07f;
            let v273: u32 = bitcast<u32>(v272);
            let v274: u32 = v273 >> (1u & 31u);
            let v275: u32 = v274 + 127u;
            let v276: u32 = v275 << (u32(23u) & 31u);
            let v277: f32 = bitcast<f32>(v276);
            let v278: f32 = v271 * v277;
            let v279: u32 = v273 - v274;
            let v280: u32 = v279 + 127u;
            let v281: u32 = v280 << (u32(23u) & 31u);
            let v282: f32 = bitcast<f32>(v281);
            let v283: f32 = v278 * v282;
            let v284: f32 = select(0.0f, v283, seen1_3);
            let v285: f32 = pull1_3 - v7;
            let v286: f32 = v284 * v285;
            let v287: f32 = v286 * scalar8;
            workgroupBarrier();
            weights[(row) * 65 + column] = v67;
            weights[(row) * 65 + column + 16] = v98;
            weights[(row) * 65 + column + 32] = v129;
            weights[(row) * 65 + column + 48] = v160;
            weights[(row + 16) * 65 + column] = v191;
            weights[(row + 16) * 65 + column + 16] = v222;
            weights[(row + 16) * 65 + column + 32] = v253;
            weights[(row + 16) * 65 + column + 48] = v284;
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
                    var v288: f32 = 0.0f;
                    if (place < size2 && first_column + free < size5) { v288 = operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + place * stride3_2 + (first_column + free) * stride3_3]; }
                    right_tile[deep * 65 + free] = v288;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let v289: f32 = weights[(row) * 65 + (deep_start + k)];
                    let v290: f32 = weights[(row + 16) * 65 + (deep_start + k)];
                    let v291: f32 = right_tile[k * 65 + column];
                    let v292: f32 = right_tile[k * 65 + column + 16];
                    let v293: f32 = right_tile[k * 65 + column + 32];
                    let v294: f32 = right_tile[k * 65 + column + 48];
                    let v295: f32 = fma(v289, v291, pulled0_0);
                    pulled0_0 = v295;
                    let v296: f32 = fma(v289, v292, pulled0_1);
                    pulled0_1 = v296;
                    let v297: f32 = fma(v289, v293, pulled0_2);
                    pulled0_2 = v297;
                    let v298: f32 = fma(v289, v294, pulled0_3);
                    pulled0_3 = v298;
                    let v299: f32 = fma(v290, v291, pulled1_0);
                    pulled1_0 = v299;
                    let v300: f32 = fma(v290, v292, pulled1_1);
                    pulled1_1 = v300;
                    let v301: f32 = fma(v290, v293, pulled1_2);
                    pulled1_2 = v301;
                    let v302: f32 = fma(v290, v294, pulled1_3);
                    pulled1_3 = v302;
                }
                workgroupBarrier();
            }
            let v303: f32 = mean0_0 + pulled0_0;
            mean0_0 = v303;
            let v304: f32 = mean0_1 + pulled0_1;
            mean0_1 = v304;
            let v305: f32 = mean0_2 + pulled0_2;
            mean0_2 = v305;
            let v306: f32 = mean0_3 + pulled0_3;
            mean0_3 = v306;
            let v307: f32 = mean1_0 + pulled1_0;
            mean1_0 = v307;
            let v308: f32 = mean1_1 + pulled1_1;
            mean1_1 = v308;
            let v309: f32 = mean1_2 + pulled1_2;
            mean1_2 = v309;
            let v310: f32 = mean1_3 + pulled1_3;
            mean1_3 = v310;
            workgroupBarrier();
            weights[(row) * 65 + column] = v70;
            weights[(row) * 65 + column + 16] = v101;
            weights[(row) * 65 + column + 32] = v132;
            weights[(row) * 65 + column + 48] = v163;
            weights[(row + 16) * 65 + column] = v194;
            weights[(row + 16) * 65 + column + 16] = v225;
            weights[(row + 16) * 65 + column + 32] = v256;
            weights[(row + 16) * 65 + column + 48] = v287;
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
                    var v311: f32 = 0.0f;
                    if (place < size2 && first_column + free < size4) { v311 = operand0[offset0 + batch0 * stride0_0 + batch1 * stride0_1 + place * stride0_2 + (first_column + free) * stride0_3]; }
                    right_tile[deep * 65 + free] = v311;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let v312: f32 = weights[(row) * 65 + (deep_start + k)];
                    let v313: f32 = weights[(row + 16) * 65 + (deep_start + k)];
                    let v314: f32 = right_tile[k * 65 + column];
                    let v315: f32 = right_tile[k * 65 + column + 16];
                    let v316: f32 = right_tile[k * 65 + column + 32];
                    let v317: f32 = right_tile[k * 65 + column + 48];
                    let v318: f32 = fma(v312, v314, taken0_0);
                    taken0_0 = v318;
                    let v319: f32 = fma(v312, v315, taken0_1);
                    taken0_1 = v319;
                    let v320: f32 = fma(v312, v316, taken0_2);
                    taken0_2 = v320;
                    let v321: f32 = fma(v312, v317, taken0_3);
                    taken0_3 = v321;
                    let v322: f32 = fma(v313, v314, taken1_0);
                    taken1_0 = v322;
                    let v323: f32 = fma(v313, v315, taken1_1);
                    taken1_1 = v323;
                    let v324: f32 = fma(v313, v316, taken1_2);
                    taken1_2 = v324;
                    let v325: f32 = fma(v313, v317, taken1_3);
                    taken1_3 = v325;
                }
                workgroupBarrier();
            }
            let v326: f32 = sum0_0 + taken0_0;
            sum0_0 = v326;
            let v327: f32 = sum0_1 + taken0_1;
            sum0_1 = v327;
            let v328: f32 = sum0_2 + taken0_2;
            sum0_2 = v328;
            let v329: f32 = sum0_3 + taken0_3;
            sum0_3 = v329;
            let v330: f32 = sum1_0 + taken1_0;
            sum1_0 = v330;
            let v331: f32 = sum1_1 + taken1_1;
            sum1_1 = v331;
            let v332: f32 = sum1_2 + taken1_2;
            sum1_2 = v332;
            let v333: f32 = sum1_3 + taken1_3;
            sum1_3 = v333;
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
