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
            let v38: bool = v37 < (-104.0f);
            let v39: bool = v37 > 89.0f;
            let v40: f32 = select(v37, 89.0f, v39);
            let v41: f32 = select(v40, (-104.0f), v38);
            let v42: f32 = v41 * 1.442695f;
            let v43: f32 = round(v42);
            let v44: f32 = fma(v43, (-0.69314575f), v41);
            let v45: f32 = fma(v43, (-1.4286068e-06f), v44);
            let v46: f32 = v45 * v45;
            let v47: f32 = fma(0.0001991374f, v45, 0.0013940377f);
            let v48: f32 = fma(v47, v45, 0.008333274f);
            let v49: f32 = fma(v48, v45, 0.041666366f);
            let v50: f32 = fma(v49, v45, 0.16666667f);
            let v51: f32 = fma(v50, v45, 0.5f);
            let v52: f32 = fma(v46, v51, v45);
            let v53: f32 = 1.0f + v52;
            let v54: f32 = v43 + 1.2582912e+07f;
            let v55: u32 = bitcast<u32>(v54);
            let v56: u32 = v55 >> (1u & 31u);
            let v57: u32 = v56 + 127u;
            let v58: u32 = v57 << (u32(23u) & 31u);
            let v59: f32 = bitcast<f32>(v58);
            let v60: f32 = v53 * v59;
            let v61: u32 = v55 - v56;
            let v62: u32 = v61 + 127u;
            let v63: u32 = v62 << (u32(23u) & 31u);
            let v64: f32 = bitcast<f32>(v63);
            let v65: f32 = v60 * v64;
            let v66: f32 = select(0.0f, v65, seen0_0);
            let v67: f32 = pull0_0 - v1;
            let v68: f32 = v66 * v67;
            let v69: f32 = v68 * scalar7;
            let seen0_1: bool = row0 < size2 && swept1 < size3 && swept1 <= row0;
            let v70: f32 = score0_1 * scalar7;
            let v71: f32 = v70 - v0;
            let v72: bool = v71 < (-104.0f);
            let v73: bool = v71 > 89.0f;
            let v74: f32 = select(v71, 89.0f, v73);
            let v75: f32 = select(v74, (-104.0f), v72);
            let v76: f32 = v75 * 1.442695f;
            let v77: f32 = round(v76);
            let v78: f32 = fma(v77, (-0.69314575f), v75);
            let v79: f32 = fma(v77, (-1.4286068e-06f), v78);
            let v80: f32 = v79 * v79;
            let v81: f32 = fma(0.0001991374f, v79, 0.0013940377f);
            let v82: f32 = fma(v81, v79, 0.008333274f);
            let v83: f32 = fma(v82, v79, 0.041666366f);
            let v84: f32 = fma(v83, v79, 0.16666667f);
            let v85: f32 = fma(v84, v79, 0.5f);
            let v86: f32 = fma(v80, v85, v79);
            let v87: f32 = 1.0f + v86;
            let v88: f32 = v77 + 1.2582912e+07f;
            let v89: u32 = bitcast<u32>(v88);
            let v90: u32 = v89 >> (1u & 31u);
            let v91: u32 = v90 + 127u;
            let v92: u32 = v91 << (u32(23u) & 31u);
            let v93: f32 = bitcast<f32>(v92);
            let v94: f32 = v87 * v93;
            let v95: u32 = v89 - v90;
            let v96: u32 = v95 + 127u;
            let v97: u32 = v96 << (u32(23u) & 31u);
            let v98: f32 = bitcast<f32>(v97);
            let v99: f32 = v94 * v98;
            let v100: f32 = select(0.0f, v99, seen0_1);
            let v101: f32 = pull0_1 - v1;
            let v102: f32 = v100 * v101;
            let v103: f32 = v102 * scalar7;
            let seen0_2: bool = row0 < size2 && swept2 < size3 && swept2 <= row0;
            let v104: f32 = score0_2 * scalar7;
            let v105: f32 = v104 - v0;
            let v106: bool = v105 < (-104.0f);
            let v107: bool = v105 > 89.0f;
            let v108: f32 = select(v105, 89.0f, v107);
            let v109: f32 = select(v108, (-104.0f), v106);
            let v110: f32 = v109 * 1.442695f;
            let v111: f32 = round(v110);
            let v112: f32 = fma(v111, (-0.69314575f), v109);
            let v113: f32 = fma(v111, (-1.4286068e-06f), v112);
            let v114: f32 = v113 * v113;
            let v115: f32 = fma(0.0001991374f, v113, 0.0013940377f);
            let v116: f32 = fma(v115, v113, 0.008333274f);
            let v117: f32 = fma(v116, v113, 0.041666366f);
            let v118: f32 = fma(v117, v113, 0.16666667f);
            let v119: f32 = fma(v118, v113, 0.5f);
            let v120: f32 = fma(v114, v119, v113);
            let v121: f32 = 1.0f + v120;
            let v122: f32 = v111 + 1.2582912e+07f;
            let v123: u32 = bitcast<u32>(v122);
            let v124: u32 = v123 >> (1u & 31u);
            let v125: u32 = v124 + 127u;
            let v126: u32 = v125 << (u32(23u) & 31u);
            let v127: f32 = bitcast<f32>(v126);
            let v128: f32 = v121 * v127;
            let v129: u32 = v123 - v124;
            let v130: u32 = v129 + 127u;
            let v131: u32 = v130 << (u32(23u) & 31u);
            let v132: f32 = bitcast<f32>(v131);
            let v133: f32 = v128 * v132;
            let v134: f32 = select(0.0f, v133, seen0_2);
            let v135: f32 = pull0_2 - v1;
            let v136: f32 = v134 * v135;
            let v137: f32 = v136 * scalar7;
            let seen0_3: bool = row0 < size2 && swept3 < size3 && swept3 <= row0;
            let v138: f32 = score0_3 * scalar7;
            let v139: f32 = v138 - v0;
            let v140: bool = v139 < (-104.0f);
            let v141: bool = v139 > 89.0f;
            let v142: f32 = select(v139, 89.0f, v141);
            let v143: f32 = select(v142, (-104.0f), v140);
            let v144: f32 = v143 * 1.442695f;
            let v145: f32 = round(v144);
            let v146: f32 = fma(v145, (-0.69314575f), v143);
            let v147: f32 = fma(v145, (-1.4286068e-06f), v146);
            let v148: f32 = v147 * v147;
            let v149: f32 = fma(0.0001991374f, v147, 0.0013940377f);
            let v150: f32 = fma(v149, v147, 0.008333274f);
            let v151: f32 = fma(v150, v147, 0.041666366f);
            let v152: f32 = fma(v151, v147, 0.16666667f);
            let v153: f32 = fma(v152, v147, 0.5f);
            let v154: f32 = fma(v148, v153, v147);
            let v155: f32 = 1.0f + v154;
            let v156: f32 = v145 + 1.2582912e+07f;
            let v157: u32 = bitcast<u32>(v156);
            let v158: u32 = v157 >> (1u & 31u);
            let v159: u32 = v158 + 127u;
            let v160: u32 = v159 << (u32(23u) & 31u);
            let v161: f32 = bitcast<f32>(v160);
            let v162: f32 = v155 * v161;
            let v163: u32 = v157 - v158;
            let v164: u32 = v163 + 127u;
            let v165: u32 = v164 << (u32(23u) & 31u);
            let v166: f32 = bitcast<f32>(v165);
            let v167: f32 = v162 * v166;
            let v168: f32 = select(0.0f, v167, seen0_3);
            let v169: f32 = pull0_3 - v1;
            let v170: f32 = v168 * v169;
            let v171: f32 = v170 * scalar7;
            let seen1_0: bool = row1 < size2 && swept0 < size3 && swept0 <= row1;
            let v172: f32 = score1_0 * scalar7;
            let v173: f32 = v172 - v2;
            let v174: bool = v173 < (-104.0f);
            let v175: bool = v173 > 89.0f;
            let v176: f32 = select(v173, 89.0f, v175);
            let v177: f32 = select(v176, (-104.0f), v174);
            let v178: f32 = v177 * 1.442695f;
            let v179: f32 = round(v178);
            let v180: f32 = fma(v179, (-0.69314575f), v177);
            let v181: f32 = fma(v179, (-1.4286068e-06f), v180);
            let v182: f32 = v181 * v181;
            let v183: f32 = fma(0.0001991374f, v181, 0.0013940377f);
            let v184: f32 = fma(v183, v181, 0.008333274f);
            let v185: f32 = fma(v184, v181, 0.041666366f);
            let v186: f32 = fma(v185, v181, 0.16666667f);
            let v187: f32 = fma(v186, v181, 0.5f);
            let v188: f32 = fma(v182, v187, v181);
            let v189: f32 = 1.0f + v188;
            let v190: f32 = v179 + 1.2582912e+07f;
            let v191: u32 = bitcast<u32>(v190);
            let v192: u32 = v191 >> (1u & 31u);
            let v193: u32 = v192 + 127u;
            let v194: u32 = v193 << (u32(23u) & 31u);
            let v195: f32 = bitcast<f32>(v194);
            let v196: f32 = v189 * v195;
            let v197: u32 = v191 - v192;
            let v198: u32 = v197 + 127u;
            let v199: u32 = v198 << (u32(23u) & 31u);
            let v200: f32 = bitcast<f32>(v199);
            let v201: f32 = v196 * v200;
            let v202: f32 = select(0.0f, v201, seen1_0);
            let v203: f32 = pull1_0 - v3;
            let v204: f32 = v202 * v203;
            let v205: f32 = v204 * scalar7;
            let seen1_1: bool = row1 < size2 && swept1 < size3 && swept1 <= row1;
            let v206: f32 = score1_1 * scalar7;
            let v207: f32 = v206 - v2;
            let v208: bool = v207 < (-104.0f);
            let v209: bool = v207 > 89.0f;
            let v210: f32 = select(v207, 89.0f, v209);
            let v211: f32 = select(v210, (-104.0f), v208);
            let v212: f32 = v211 * 1.442695f;
            let v213: f32 = round(v212);
            let v214: f32 = fma(v213, (-0.69314575f), v211);
            let v215: f32 = fma(v213, (-1.4286068e-06f), v214);
            let v216: f32 = v215 * v215;
            let v217: f32 = fma(0.0001991374f, v215, 0.0013940377f);
            let v218: f32 = fma(v217, v215, 0.008333274f);
            let v219: f32 = fma(v218, v215, 0.041666366f);
            let v220: f32 = fma(v219, v215, 0.16666667f);
            let v221: f32 = fma(v220, v215, 0.5f);
            let v222: f32 = fma(v216, v221, v215);
            let v223: f32 = 1.0f + v222;
            let v224: f32 = v213 + 1.2582912e+07f;
            let v225: u32 = bitcast<u32>(v224);
            let v226: u32 = v225 >> (1u & 31u);
            let v227: u32 = v226 + 127u;
            let v228: u32 = v227 << (u32(23u) & 31u);
            let v229: f32 = bitcast<f32>(v228);
            let v230: f32 = v223 * v229;
            let v231: u32 = v225 - v226;
            let v232: u32 = v231 + 127u;
            let v233: u32 = v232 << (u32(23u) & 31u);
            let v234: f32 = bitcast<f32>(v233);
            let v235: f32 = v230 * v234;
            let v236: f32 = select(0.0f, v235, seen1_1);
            let v237: f32 = pull1_1 - v3;
            let v238: f32 = v236 * v237;
            let v239: f32 = v238 * scalar7;
            let seen1_2: bool = row1 < size2 && swept2 < size3 && swept2 <= row1;
            let v240: f32 = score1_2 * scalar7;
            let v241: f32 = v240 - v2;
            let v242: bool = v241 < (-104.0f);
            let v243: bool = v241 > 89.0f;
            let v244: f32 = select(v241, 89.0f, v243);
            let v245: f32 = select(v244, (-104.0f), v242);
            let v246: f32 = v245 * 1.442695f;
            let v247: f32 = round(v246);
            let v248: f32 = fma(v247, (-0.69314575f), v245);
            let v249: f32 = fma(v247, (-1.4286068e-06f), v248);
            let v250: f32 = v249 * v249;
            let v251: f32 = fma(0.0001991374f, v249, 0.0013940377f);
            let v252: f32 = fma(v251, v249, 0.008333274f);
            let v253: f32 = fma(v252, v249, 0.041666366f);
            let v254: f32 = fma(v253, v249, 0.16666667f);
            let v255: f32 = fma(v254, v249, 0.5f);
            let v256: f32 = fma(v250, v255, v249);
            let v257: f32 = 1.0f + v256;
            let v258: f32 = v247 + 1.2582912e+07f;
            let v259: u32 = bitcast<u32>(v258);
            let v260: u32 = v259 >> (1u & 31u);
            let v261: u32 = v260 + 127u;
            let v262: u32 = v261 << (u32(23u) & 31u);
            let v263: f32 = bitcast<f32>(v262);
            let v264: f32 = v257 * v263;
            let v265: u32 = v259 - v260;
            let v266: u32 = v265 + 127u;
            let v267: u32 = v266 << (u32(23u) & 31u);
            let v268: f32 = bitcast<f32>(v267);
            let v269: f32 = v264 * v268;
            let v270: f32 = select(0.0f, v269, seen1_2);
            let v271: f32 = pull1_2 - v3;
            let v272: f32 = v270 * v271;
            let v273: f32 = v272 * scalar7;
            let seen1_3: bool = row1 < size2 && swept3 < size3 && swept3 <= row1;
            let v274: f32 = score1_3 * scalar7;
            let v275: f32 = v274 - v2;
            let v276: bool = v275 < (-104.0f);
            let v277: bool = v275 > 89.0f;
            let v278: f32 = select(v275, 89.0f, v277);
            let v279: f32 = select(v278, (-104.0f), v276);
            let v280: f32 = v279 * 1.442695f;
            let v281: f32 = round(v280);
            let v282: f32 = fma(v281, (-0.69314575f), v279);
            let v283: f32 = fma(v281, (-1.4286068e-06f), v282);
            let v284: f32 = v283 * v283;
            let v285: f32 = fma(0.0001991374f, v283, 0.0013940377f);
            let v286: f32 = fma(v285, v283, 0.008333274f);
            let v287: f32 = fma(v286, v283, 0.041666366f);
            let v288: f32 = fma(v287, v283, 0.16666667f);
            let v289: f32 = fma(v288, v283, 0.5f);
            let v290: f32 = fma(v284, v289, v283);
            let v291: f32 = 1.0f + v290;
            let v292: f32 = v281 + 1.2582912e+07f;
            let v293: u32 = bitcast<u32>(v292);
            let v294: u32 = v293 >> (1u & 31u);
            let v295: u32 = v294 + 127u;
            let v296: u32 = v295 << (u32(23u) & 31u);
            let v297: f32 = bitcast<f32>(v296);
            let v298: f32 = v291 * v297;
            let v299: u32 = v293 - v294;
            let v300: u32 = v299 + 127u;
            let v301: u32 = v300 << (u32(23u) & 31u);
            let v302: f32 = bitcast<f32>(v301);
            let v303: f32 = v298 * v302;
            let v304: f32 = select(0.0f, v303, seen1_3);
            let v305: f32 = pull1_3 - v3;
            let v306: f32 = v304 * v305;
            let v307: f32 = v306 * scalar7;
            workgroupBarrier();
            weights[(row) * 65 + column] = v69;
            weights[(row) * 65 + column + 16] = v103;
            weights[(row) * 65 + column + 32] = v137;
            weights[(row) * 65 + column + 48] = v171;
            weights[(row + 16) * 65 + column] = v205;
            weights[(row + 16) * 65 + column + 16] = v239;
            weights[(row + 16) * 65 + column + 32] = v273;
            weights[(row + 16) * 65 + column + 48] = v307;
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
                    var v308: f32 = 0.0f;
                    if (place < size3 && first_column + free < size4) { v308 = operand1[offset1 + batch0 * stride1_0 + batch1 * stride1_1 + place * stride1_2 + (first_column + free) * stride1_3]; }
                    right_tile[deep * 65 + free] = v308;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let v309: f32 = weights[(row) * 65 + (deep_start + k)];
                    let v310: f32 = weights[(row + 16) * 65 + (deep_start + k)];
                    let v311: f32 = right_tile[k * 65 + column];
                    let v312: f32 = right_tile[k * 65 + column + 16];
                    let v313: f32 = right_tile[k * 65 + column + 32];
                    let v314: f32 = right_tile[k * 65 + column + 48];
                    let v315: f32 = fma(v309, v311, taken0_0);
                    taken0_0 = v315;
                    let v316: f32 = fma(v309, v312, taken0_1);
                    taken0_1 = v316;
                    let v317: f32 = fma(v309, v313, taken0_2);
                    taken0_2 = v317;
                    let v318: f32 = fma(v309, v314, taken0_3);
                    taken0_3 = v318;
                    let v319: f32 = fma(v310, v311, taken1_0);
                    taken1_0 = v319;
                    let v320: f32 = fma(v310, v312, taken1_1);
                    taken1_1 = v320;
                    let v321: f32 = fma(v310, v313, taken1_2);
                    taken1_2 = v321;
                    let v322: f32 = fma(v310, v314, taken1_3);
                    taken1_3 = v322;
                }
                workgroupBarrier();
            }
            let v323: f32 = sum0_0 + taken0_0;
            sum0_0 = v323;
            let v324: f32 = sum0_1 + taken0_1;
            sum0_1 = v324;
            let v325: f32 = sum0_2 + taken0_2;
            sum0_2 = v325;
            let v326: f32 = sum0_3 + taken0_3;
            sum0_3 = v326;
            let v327: f32 = sum1_0 + taken1_0;
            sum1_0 = v327;
            let v328: f32 = sum1_1 + taken1_1;
            sum1_1 = v328;
            let v329: f32 = sum1_2 + taken1_2;
            sum1_2 = v329;
            let v330: f32 = sum1_3 + taken1_3;
            sum1_3 = v330;
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
