struct Arguments { zero: u32, size0: i32, size1: i32, offset0: i32, offset1: i32, stride0_0: i32, stride1_0: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read_write> operand1: array<f32>;
var<workgroup> lanes_float32_0: array<f32, 256>;

@compute @workgroup_size(256)
fn row_17fee44128bd(
    @builtin(local_invocation_index) local: u32,
    @builtin(workgroup_id) place: vec3<u32>,
    @builtin(num_workgroups) extent: vec3<u32>) {
    let thread: i32 = i32(local);
    let threads: i32 = 256;
    let group: i32 = i32(place.x + place.y * extent.x);
    let groups: i32 = i32(extent.x * extent.y);
    let size0: i32 = arguments.size0;
    let size1: i32 = arguments.size1;
    let offset0: i32 = arguments.offset0;
    let offset1: i32 = arguments.offset1;
    let stride0_0: i32 = arguments.stride0_0;
    let stride1_0: i32 = arguments.stride1_0;
    let points: i32 = size0;
    let elements: i32 = size1;
    for (var point: i32 = group; point < points; point += groups) {
        let i0: i32 = point;
        var fold0_0: f32 = bitcast<f32>(0xff800000u | arguments.zero);
        for (var first: i32 = thread; first < elements; first += threads * 4) {
            if (first + threads * 3 < elements) {
                var value0_0: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 0;
                    let i1: i32 = point_there;
                    let v0: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    value0_0 = v0;
                }
                var value0_1: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 1;
                    let i1: i32 = point_there;
                    let v1: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    value0_1 = v1;
                }
                var value0_2: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 2;
                    let i1: i32 = point_there;
                    let v2: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    value0_2 = v2;
                }
                var value0_3: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 3;
                    let i1: i32 = point_there;
                    let v3: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    value0_3 = v3;
                }
                let v4: bool = fold0_0 > value0_0;
                let v5: bool = (bitcast<u32>(fold0_0) & 0x7fffffffu) > 0x7f800000u;
                let v6: bool = v4 | v5;
                let v7: f32 = select(value0_0, fold0_0, v6);
                fold0_0 = v7;
                let v8: bool = fold0_0 > value0_1;
                let v9: bool = (bitcast<u32>(fold0_0) & 0x7fffffffu) > 0x7f800000u;
                let v10: bool = v8 | v9;
                let v11: f32 = select(value0_1, fold0_0, v10);
                fold0_0 = v11;
                let v12: bool = fold0_0 > value0_2;
                let v13: bool = (bitcast<u32>(fold0_0) & 0x7fffffffu) > 0x7f800000u;
                let v14: bool = v12 | v13;
                let v15: f32 = select(value0_2, fold0_0, v14);
                fold0_0 = v15;
                let v16: bool = fold0_0 > value0_3;
                let v17: bool = (bitcast<u32>(fold0_0) & 0x7fffffffu) > 0x7f800000u;
                let v18: bool = v16 | v17;
                let v19: f32 = select(value0_3, fold0_0, v18);
                fold0_0 = v19;
            }
            else {
                for (var element: i32 = first; element < elements; element += threads) {
                    let i1: i32 = element;
                    let v20: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v21: bool = fold0_0 > v20;
                    let v22: bool = (bitcast<u32>(fold0_0) & 0x7fffffffu) > 0x7f800000u;
                    let v23: bool = v21 | v22;
                    let v24: f32 = select(v20, fold0_0, v23);
                    fold0_0 = v24;
                }
            }
        }
        lanes_float32_0[thread] = fold0_0;
        workgroupBarrier();
        if (thread < 64) {
            let v25: f32 = lanes_float32_0[thread];
            let v26: f32 = lanes_float32_0[thread + 64];
            let v27: bool = v25 > v26;
            let v28: bool = (bitcast<u32>(v25) & 0x7fffffffu) > 0x7f800000u;
            let v29: bool = v27 | v28;
            let v30: f32 = select(v26, v25, v29);
            let v31: f32 = lanes_float32_0[thread + 128];
            let v32: bool = v30 > v31;
            let v33: bool = (bitcast<u32>(v30) & 0x7fffffffu) > 0x7f800000u;
            let v34: bool = v32 | v33;
            let v35: f32 = select(v31, v30, v34);
            let v36: f32 = lanes_float32_0[thread + 192];
            let v37: bool = v35 > v36;
            let v38: bool = (bitcast<u32>(v35) & 0x7fffffffu) > 0x7f800000u;
            let v39: bool = v37 | v38;
            let v40: f32 = select(v36, v35, v39);
            lanes_float32_0[thread] = v40;
        }
        workgroupBarrier();
        if (thread < 16) {
            let v41: f32 = lanes_float32_0[thread];
            let v42: f32 = lanes_float32_0[thread + 16];
            let v43: bool = v41 > v42;
            let v44: bool = (bitcast<u32>(v41) & 0x7fffffffu) > 0x7f800000u;
            let v45: bool = v43 | v44;
            let v46: f32 = select(v42, v41, v45);
            let v47: f32 = lanes_float32_0[thread + 32];
            let v48: bool = v46 > v47;
            let v49: bool = (bitcast<u32>(v46) & 0x7fffffffu) > 0x7f800000u;
            let v50: bool = v48 | v49;
            let v51: f32 = select(v47, v46, v50);
            let v52: f32 = lanes_float32_0[thread + 48];
            let v53: bool = v51 > v52;
            let v54: bool = (bitcast<u32>(v51) & 0x7fffffffu) > 0x7f800000u;
            let v55: bool = v53 | v54;
            let v56: f32 = select(v52, v51, v55);
            lanes_float32_0[thread] = v56;
        }
        workgroupBarrier();
        if (thread < 4) {
            let v57: f32 = lanes_float32_0[thread];
            let v58: f32 = lanes_float32_0[thread + 4];
            let v59: bool = v57 > v58;
            let v60: bool = (bitcast<u32>(v57) & 0x7fffffffu) > 0x7f800000u;
            let v61: bool = v59 | v60;
            let v62: f32 = select(v58, v57, v61);
            let v63: f32 = lanes_float32_0[thread + 8];
            let v64: bool = v62 > v63;
            let v65: bool = (bitcast<u32>(v62) & 0x7fffffffu) > 0x7f800000u;
            let v66: bool = v64 | v65;
            let v67: f32 = select(v63, v62, v66);
            let v68: f32 = lanes_float32_0[thread + 12];
            let v69: bool = v67 > v68;
            let v70: bool = (bitcast<u32>(v67) & 0x7fffffffu) > 0x7f800000u;
            let v71: bool = v69 | v70;
            let v72: f32 = select(v68, v67, v71);
            lanes_float32_0[thread] = v72;
        }
        workgroupBarrier();
        if (thread < 1) {
            let v73: f32 = lanes_float32_0[thread];
            let v74: f32 = lanes_float32_0[thread + 1];
            let v75: bool = v73 > v74;
            let v76: bool = (bitcast<u32>(v73) & 0x7fffffffu) > 0x7f800000u;
            let v77: bool = v75 | v76;
            let v78: f32 = select(v74, v73, v77);
            let v79: f32 = lanes_float32_0[thread + 2];
            let v80: bool = v78 > v79;
            let v81: bool = (bitcast<u32>(v78) & 0x7fffffffu) > 0x7f800000u;
            let v82: bool = v80 | v81;
            let v83: f32 = select(v79, v78, v82);
            let v84: f32 = lanes_float32_0[thread + 3];
            let v85: bool = v83 > v84;
            let v86: bool = (bitcast<u32>(v83) & 0x7fffffffu) > 0x7f800000u;
            let v87: bool = v85 | v86;
            let v88: f32 = select(v84, v83, v87);
            lanes_float32_0[thread] = v88;
        }
        workgroupBarrier();
        fold0_0 = lanes_float32_0[0];
        workgroupBarrier();
        var fold1_0: f32 = 0.0f;
        var fold1_0_block: f32 = 0.0f;
        var turns1: i32 = 0;
        for (var first: i32 = thread; first < elements; first += threads * 4) {
            if (first + threads * 3 < elements) {
                var value0_0: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 0;
                    let i1: i32 = point_there;
                    let v89: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v90: f32 = v89 - fold0_0;
                    let v91: f32 = select(clamp(v90, (-104.0f), 89.0f), v90, (bitcast<u32>(v90) & 0x7fffffffu) > 0x7f800000u);
                    let v92: f32 = v91 * 1.442695f;
                    let v93: f32 = round(v92);
                    let v94: f32 = fma(v93, (-0.69314575f), v91);
                    let v95: f32 = fma(v93, (-1.4286068e-06f), v94);
                    let v96: f32 = v95 * v95;
                    let v97: f32 = fma(0.0001991374f, v95, 0.0013940377f);
                    let v98: f32 = fma(v97, v95, 0.008333274f);
                    let v99: f32 = fma(v98, v95, 0.041666366f);
                    let v100: f32 = fma(v99, v95, 0.16666667f);
                    let v101: f32 = fma(v100, v95, 0.5f);
                    let v102: f32 = fma(v96, v101, v95);
                    let v103: f32 = 1.0f + v102;
                    let v104: f32 = v93 + 1.2582912e+07f;
                    let v105: u32 = bitcast<u32>(v104);
                    let v106: u32 = v105 >> (1u & 31u);
                    let v107: u32 = v106 + 127u;
                    let v108: u32 = v107 << (u32(23u) & 31u);
                    let v109: f32 = bitcast<f32>(v108);
                    let v110: f32 = v103 * v109;
                    let v111: u32 = v105 - v106;
                    let v112: u32 = v111 + 127u;
                    let v113: u32 = v112 << (u32(23u) & 31u);
                    let v114: f32 = bitcast<f32>(v113);
                    let v115: f32 = v110 * v114;
                    value0_0 = v115;
                }
                var value0_1: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 1;
                    let i1: i32 = point_there;
                    let v116: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v117: f32 = v116 - fold0_0;
                    let v118: f32 = select(clamp(v117, (-104.0f), 89.0f), v117, (bitcast<u32>(v117) & 0x7fffffffu) > 0x7f800000u);
                    let v119: f32 = v118 * 1.442695f;
                    let v120: f32 = round(v119);
                    let v121: f32 = fma(v120, (-0.69314575f), v118);
                    let v122: f32 = fma(v120, (-1.4286068e-06f), v121);
                    let v123: f32 = v122 * v122;
                    let v124: f32 = fma(0.0001991374f, v122, 0.0013940377f);
                    let v125: f32 = fma(v124, v122, 0.008333274f);
                    let v126: f32 = fma(v125, v122, 0.041666366f);
                    let v127: f32 = fma(v126, v122, 0.16666667f);
                    let v128: f32 = fma(v127, v122, 0.5f);
                    let v129: f32 = fma(v123, v128, v122);
                    let v130: f32 = 1.0f + v129;
                    let v131: f32 = v120 + 1.2582912e+07f;
                    let v132: u32 = bitcast<u32>(v131);
                    let v133: u32 = v132 >> (1u & 31u);
                    let v134: u32 = v133 + 127u;
                    let v135: u32 = v134 << (u32(23u) & 31u);
                    let v136: f32 = bitcast<f32>(v135);
                    let v137: f32 = v130 * v136;
                    let v138: u32 = v132 - v133;
                    let v139: u32 = v138 + 127u;
                    let v140: u32 = v139 << (u32(23u) & 31u);
                    let v141: f32 = bitcast<f32>(v140);
                    let v142: f32 = v137 * v141;
                    value0_1 = v142;
                }
                var value0_2: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 2;
                    let i1: i32 = point_there;
                    let v143: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v144: f32 = v143 - fold0_0;
                    let v145: f32 = select(clamp(v144, (-104.0f), 89.0f), v144, (bitcast<u32>(v144) & 0x7fffffffu) > 0x7f800000u);
                    let v146: f32 = v145 * 1.442695f;
                    let v147: f32 = round(v146);
                    let v148: f32 = fma(v147, (-0.69314575f), v145);
                    let v149: f32 = fma(v147, (-1.4286068e-06f), v148);
                    let v150: f32 = v149 * v149;
                    let v151: f32 = fma(0.0001991374f, v149, 0.0013940377f);
                    let v152: f32 = fma(v151, v149, 0.008333274f);
                    let v153: f32 = fma(v152, v149, 0.041666366f);
                    let v154: f32 = fma(v153, v149, 0.16666667f);
                    let v155: f32 = fma(v154, v149, 0.5f);
                    let v156: f32 = fma(v150, v155, v149);
                    let v157: f32 = 1.0f + v156;
                    let v158: f32 = v147 + 1.2582912e+07f;
                    let v159: u32 = bitcast<u32>(v158);
                    let v160: u32 = v159 >> (1u & 31u);
                    let v161: u32 = v160 + 127u;
                    let v162: u32 = v161 << (u32(23u) & 31u);
                    let v163: f32 = bitcast<f32>(v162);
                    let v164: f32 = v157 * v163;
                    let v165: u32 = v159 - v160;
                    let v166: u32 = v165 + 127u;
                    let v167: u32 = v166 << (u32(23u) & 31u);
                    let v168: f32 = bitcast<f32>(v167);
                    let v169: f32 = v164 * v168;
                    value0_2 = v169;
                }
                var value0_3: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 3;
                    let i1: i32 = point_there;
                    let v170: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v171: f32 = v170 - fold0_0;
                    let v172: f32 = select(clamp(v171, (-104.0f), 89.0f), v171, (bitcast<u32>(v171) & 0x7fffffffu) > 0x7f800000u);
                    let v173: f32 = v172 * 1.442695f;
                    let v174: f32 = round(v173);
                    let v175: f32 = fma(v174, (-0.69314575f), v172);
                    let v176: f32 = fma(v174, (-1.4286068e-06f), v175);
                    let v177: f32 = v176 * v176;
                    let v178: f32 = fma(0.0001991374f, v176, 0.0013940377f);
                    let v179: f32 = fma(v178, v176, 0.008333274f);
                    let v180: f32 = fma(v179, v176, 0.041666366f);
                    let v181: f32 = fma(v180, v176, 0.16666667f);
                    let v182: f32 = fma(v181, v176, 0.5f);
                    let v183: f32 = fma(v177, v182, v176);
                    let v184: f32 = 1.0f + v183;
                    let v185: f32 = v174 + 1.2582912e+07f;
                    let v186: u32 = bitcast<u32>(v185);
                    let v187: u32 = v186 >> (1u & 31u);
                    let v188: u32 = v187 + 127u;
                    let v189: u32 = v188 << (u32(23u) & 31u);
                    let v190: f32 = bitcast<f32>(v189);
                    let v191: f32 = v184 * v190;
                    let v192: u32 = v186 - v187;
                    let v193: u32 = v192 + 127u;
                    let v194: u32 = v193 << (u32(23u) & 31u);
                    let v195: f32 = bitcast<f32>(v194);
                    let v196: f32 = v191 * v195;
                    value0_3 = v196;
                }
                let v197: f32 = fold1_0_block + value0_0;
                fold1_0_block = v197;
                let v198: f32 = fold1_0_block + value0_1;
                fold1_0_block = v198;
                let v199: f32 = fold1_0_block + value0_2;
                fold1_0_block = v199;
                let v200: f32 = fold1_0_block + value0_3;
                fold1_0_block = v200;
                turns1 += 4;
                if (turns1 >= 64) {
                    let v201: f32 = fold1_0 + fold1_0_block;
                    fold1_0 = v201;
                    fold1_0_block = 0.0f;
                    turns1 = 0;
                }
            }
            else {
                for (var element: i32 = first; element < elements; element += threads) {
                    let i1: i32 = element;
                    let v202: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v203: f32 = v202 - fold0_0;
                    let v204: f32 = select(clamp(v203, (-104.0f), 89.0f), v203, (bitcast<u32>(v203) & 0x7fffffffu) > 0x7f800000u);
                    let v205: f32 = v204 * 1.442695f;
                    let v206: f32 = round(v205);
                    let v207: f32 = fma(v206, (-0.69314575f), v204);
                    let v208: f32 = fma(v206, (-1.4286068e-06f), v207);
                    let v209: f32 = v208 * v208;
                    let v210: f32 = fma(0.0001991374f, v208, 0.0013940377f);
                    let v211: f32 = fma(v210, v208, 0.008333274f);
                    let v212: f32 = fma(v211, v208, 0.041666366f);
                    let v213: f32 = fma(v212, v208, 0.16666667f);
                    let v214: f32 = fma(v213, v208, 0.5f);
                    let v215: f32 = fma(v209, v214, v208);
                    let v216: f32 = 1.0f + v215;
                    let v217: f32 = v206 + 1.2582912e+07f;
                    let v218: u32 = bitcast<u32>(v217);
                    let v219: u32 = v218 >> (1u & 31u);
                    let v220: u32 = v219 + 127u;
                    let v221: u32 = v220 << (u32(23u) & 31u);
                    let v222: f32 = bitcast<f32>(v221);
                    let v223: f32 = v216 * v222;
                    let v224: u32 = v218 - v219;
                    let v225: u32 = v224 + 127u;
                    let v226: u32 = v225 << (u32(23u) & 31u);
                    let v227: f32 = bitcast<f32>(v226);
                    let v228: f32 = v223 * v227;
                    let v229: f32 = fold1_0_block + v228;
                    fold1_0_block = v229;
                    turns1 += 1;
                    if (turns1 == 64) {
                        let v230: f32 = fold1_0 + fold1_0_block;
                        fold1_0 = v230;
                        fold1_0_block = 0.0f;
                        turns1 = 0;
                    }
                }
            }
        }
        let v231: f32 = fold1_0 + fold1_0_block;
        fold1_0 = v231;
        lanes_float32_0[thread] = fold1_0;
        workgroupBarrier();
        if (thread < 64) {
            let v232: f32 = lanes_float32_0[thread];
            let v233: f32 = lanes_float32_0[thread + 64];
            let v234: f32 = v232 + v233;
            let v235: f32 = lanes_float32_0[thread + 128];
            let v236: f32 = v234 + v235;
            let v237: f32 = lanes_float32_0[thread + 192];
            let v238: f32 = v236 + v237;
            lanes_float32_0[thread] = v238;
        }
        workgroupBarrier();
        if (thread < 16) {
            let v239: f32 = lanes_float32_0[thread];
            let v240: f32 = lanes_float32_0[thread + 16];
            let v241: f32 = v239 + v240;
            let v242: f32 = lanes_float32_0[thread + 32];
            let v243: f32 = v241 + v242;
            let v244: f32 = lanes_float32_0[thread + 48];
            let v245: f32 = v243 + v244;
            lanes_float32_0[thread] = v245;
        }
        workgroupBarrier();
        if (thread < 4) {
            let v246: f32 = lanes_float32_0[thread];
            let v247: f32 = lanes_float32_0[thread + 4];
            let v248: f32 = v246 + v247;
            let v249: f32 = lanes_float32_0[thread + 8];
            let v250: f32 = v248 + v249;
            let v251: f32 = lanes_float32_0[thread + 12];
            let v252: f32 = v250 + v251;
            lanes_float32_0[thread] = v252;
        }
        workgroupBarrier();
        if (thread < 1) {
            let v253: f32 = lanes_float32_0[thread];
            let v254: f32 = lanes_float32_0[thread + 1];
            let v255: f32 = v253 + v254;
            let v256: f32 = lanes_float32_0[thread + 2];
            let v257: f32 = v255 + v256;
            let v258: f32 = lanes_float32_0[thread + 3];
            let v259: f32 = v257 + v258;
            lanes_float32_0[thread] = v259;
        }
        workgroupBarrier();
        fold1_0 = lanes_float32_0[0];
        workgroupBarrier();
        for (var first: i32 = thread; first < elements; first += threads * 4) {
            if (first + threads * 3 < elements) {
                var value0_0: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 0;
                    let i1: i32 = point_there;
                    let v260: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v261: f32 = v260 - fold0_0;
                    let v262: f32 = select(clamp(v261, (-104.0f), 89.0f), v261, (bitcast<u32>(v261) & 0x7fffffffu) > 0x7f800000u);
                    let v263: f32 = v262 * 1.442695f;
                    let v264: f32 = round(v263);
                    let v265: f32 = fma(v264, (-0.69314575f), v262);
                    let v266: f32 = fma(v264, (-1.4286068e-06f), v265);
                    let v267: f32 = v266 * v266;
                    let v268: f32 = fma(0.0001991374f, v266, 0.0013940377f);
                    let v269: f32 = fma(v268, v266, 0.008333274f);
                    let v270: f32 = fma(v269, v266, 0.041666366f);
                    let v271: f32 = fma(v270, v266, 0.16666667f);
                    let v272: f32 = fma(v271, v266, 0.5f);
                    let v273: f32 = fma(v267, v272, v266);
                    let v274: f32 = 1.0f + v273;
                    let v275: f32 = v264 + 1.2582912e+07f;
                    let v276: u32 = bitcast<u32>(v275);
                    let v277: u32 = v276 >> (1u & 31u);
                    let v278: u32 = v277 + 127u;
                    let v279: u32 = v278 << (u32(23u) & 31u);
                    let v280: f32 = bitcast<f32>(v279);
                    let v281: f32 = v274 * v280;
                    let v282: u32 = v276 - v277;
                    let v283: u32 = v282 + 127u;
                    let v284: u32 = v283 << (u32(23u) & 31u);
                    let v285: f32 = bitcast<f32>(v284);
                    let v286: f32 = v281 * v285;
                    let v287: f32 = v286 / fold1_0;
                    value0_0 = v287;
                }
                var value0_1: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 1;
                    let i1: i32 = point_there;
                    let v288: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v289: f32 = v288 - fold0_0;
                    let v290: f32 = select(clamp(v289, (-104.0f), 89.0f), v289, (bitcast<u32>(v289) & 0x7fffffffu) > 0x7f800000u);
                    let v291: f32 = v290 * 1.442695f;
                    let v292: f32 = round(v291);
                    let v293: f32 = fma(v292, (-0.69314575f), v290);
                    let v294: f32 = fma(v292, (-1.4286068e-06f), v293);
                    let v295: f32 = v294 * v294;
                    let v296: f32 = fma(0.0001991374f, v294, 0.0013940377f);
                    let v297: f32 = fma(v296, v294, 0.008333274f);
                    let v298: f32 = fma(v297, v294, 0.041666366f);
                    let v299: f32 = fma(v298, v294, 0.16666667f);
                    let v300: f32 = fma(v299, v294, 0.5f);
                    let v301: f32 = fma(v295, v300, v294);
                    let v302: f32 = 1.0f + v301;
                    let v303: f32 = v292 + 1.2582912e+07f;
                    let v304: u32 = bitcast<u32>(v303);
                    let v305: u32 = v304 >> (1u & 31u);
                    let v306: u32 = v305 + 127u;
                    let v307: u32 = v306 << (u32(23u) & 31u);
                    let v308: f32 = bitcast<f32>(v307);
                    let v309: f32 = v302 * v308;
                    let v310: u32 = v304 - v305;
                    let v311: u32 = v310 + 127u;
                    let v312: u32 = v311 << (u32(23u) & 31u);
                    let v313: f32 = bitcast<f32>(v312);
                    let v314: f32 = v309 * v313;
                    let v315: f32 = v314 / fold1_0;
                    value0_1 = v315;
                }
                var value0_2: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 2;
                    let i1: i32 = point_there;
                    let v316: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v317: f32 = v316 - fold0_0;
                    let v318: f32 = select(clamp(v317, (-104.0f), 89.0f), v317, (bitcast<u32>(v317) & 0x7fffffffu) > 0x7f800000u);
                    let v319: f32 = v318 * 1.442695f;
                    let v320: f32 = round(v319);
                    let v321: f32 = fma(v320, (-0.69314575f), v318);
                    let v322: f32 = fma(v320, (-1.4286068e-06f), v321);
                    let v323: f32 = v322 * v322;
                    let v324: f32 = fma(0.0001991374f, v322, 0.0013940377f);
                    let v325: f32 = fma(v324, v322, 0.008333274f);
                    let v326: f32 = fma(v325, v322, 0.041666366f);
                    let v327: f32 = fma(v326, v322, 0.16666667f);
                    let v328: f32 = fma(v327, v322, 0.5f);
                    let v329: f32 = fma(v323, v328, v322);
                    let v330: f32 = 1.0f + v329;
                    let v331: f32 = v320 + 1.2582912e+07f;
                    let v332: u32 = bitcast<u32>(v331);
                    let v333: u32 = v332 >> (1u & 31u);
                    let v334: u32 = v333 + 127u;
                    let v335: u32 = v334 << (u32(23u) & 31u);
                    let v336: f32 = bitcast<f32>(v335);
                    let v337: f32 = v330 * v336;
                    let v338: u32 = v332 - v333;
                    let v339: u32 = v338 + 127u;
                    let v340: u32 = v339 << (u32(23u) & 31u);
                    let v341: f32 = bitcast<f32>(v340);
                    let v342: f32 = v337 * v341;
                    let v343: f32 = v342 / fold1_0;
                    value0_2 = v343;
                }
                var value0_3: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads * 3;
                    let i1: i32 = point_there;
                    let v344: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v345: f32 = v344 - fold0_0;
                    let v346: f32 = select(clamp(v345, (-104.0f), 89.0f), v345, (bitcast<u32>(v345) & 0x7fffffffu) > 0x7f800000u);
                    let v347: f32 = v346 * 1.442695f;
                    let v348: f32 = round(v347);
                    let v349: f32 = fma(v348, (-0.69314575f), v346);
                    let v350: f32 = fma(v348, (-1.4286068e-06f), v349);
                    let v351: f32 = v350 * v350;
                    let v352: f32 = fma(0.0001991374f, v350, 0.0013940377f);
                    let v353: f32 = fma(v352, v350, 0.008333274f);
                    let v354: f32 = fma(v353, v350, 0.041666366f);
                    let v355: f32 = fma(v354, v350, 0.16666667f);
                    let v356: f32 = fma(v355, v350, 0.5f);
                    let v357: f32 = fma(v351, v356, v350);
                    let v358: f32 = 1.0f + v357;
                    let v359: f32 = v348 + 1.2582912e+07f;
                    let v360: u32 = bitcast<u32>(v359);
                    let v361: u32 = v360 >> (1u & 31u);
                    let v362: u32 = v361 + 127u;
                    let v363: u32 = v362 << (u32(23u) & 31u);
                    let v364: f32 = bitcast<f32>(v363);
                    let v365: f32 = v358 * v364;
                    let v366: u32 = v360 - v361;
                    let v367: u32 = v366 + 127u;
                    let v368: u32 = v367 << (u32(23u) & 31u);
                    let v369: f32 = bitcast<f32>(v368);
                    let v370: f32 = v365 * v369;
                    let v371: f32 = v370 / fold1_0;
                    value0_3 = v371;
                }
                {
                    let point_there: i32 = first + threads * 0;
                    let i1: i32 = point_there;
                    operand1[offset1 + i0 * stride1_0 + i1] = value0_0;
                }
                {
                    let point_there: i32 = first + threads * 1;
                    let i1: i32 = point_there;
                    operand1[offset1 + i0 * stride1_0 + i1] = value0_1;
                }
                {
                    let point_there: i32 = first + threads * 2;
                    let i1: i32 = point_there;
                    operand1[offset1 + i0 * stride1_0 + i1] = value0_2;
                }
                {
                    let point_there: i32 = first + threads * 3;
                    let i1: i32 = point_there;
                    operand1[offset1 + i0 * stride1_0 + i1] = value0_3;
                }
            }
            else {
                for (var element: i32 = first; element < elements; element += threads) {
                    let i1: i32 = element;
                    let v372: f32 = operand0[offset0 + i0 * stride0_0 + i1];
                    let v373: f32 = v372 - fold0_0;
                    let v374: f32 = select(clamp(v373, (-104.0f), 89.0f), v373, (bitcast<u32>(v373) & 0x7fffffffu) > 0x7f800000u);
                    let v375: f32 = v374 * 1.442695f;
                    let v376: f32 = round(v375);
                    let v377: f32 = fma(v376, (-0.69314575f), v374);
                    let v378: f32 = fma(v376, (-1.4286068e-06f), v377);
                    let v379: f32 = v378 * v378;
                    let v380: f32 = fma(0.0001991374f, v378, 0.0013940377f);
                    let v381: f32 = fma(v380, v378, 0.008333274f);
                    let v382: f32 = fma(v381, v378, 0.041666366f);
                    let v383: f32 = fma(v382, v378, 0.16666667f);
                    let v384: f32 = fma(v383, v378, 0.5f);
                    let v385: f32 = fma(v379, v384, v378);
                    let v386: f32 = 1.0f + v385;
                    let v387: f32 = v376 + 1.2582912e+07f;
                    let v388: u32 = bitcast<u32>(v387);
                    let v389: u32 = v388 >> (1u & 31u);
                    let v390: u32 = v389 + 127u;
                    let v391: u32 = v390 << (u32(23u) & 31u);
                    let v392: f32 = bitcast<f32>(v391);
                    let v393: f32 = v386 * v392;
                    let v394: u32 = v388 - v389;
                    let v395: u32 = v394 + 127u;
                    let v396: u32 = v395 << (u32(23u) & 31u);
                    let v397: f32 = bitcast<f32>(v396);
                    let v398: f32 = v393 * v397;
                    let v399: f32 = v398 / fold1_0;
                    operand1[offset1 + i0 * stride1_0 + i1] = v399;
                }
            }
        }
    }
}
