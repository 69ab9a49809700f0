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
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v0: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v1: bool = fold0_0 > v0;
            let v2: bool = (bitcast<u32>(fold0_0) & 0x7fffffffu) > 0x7f800000u;
            let v3: bool = v1 | v2;
            let v4: f32 = select(v0, fold0_0, v3);
            fold0_0 = v4;
        }
        lanes_float32_0[thread] = fold0_0;
        workgroupBarrier();
        if (thread < 64) {
            let v5: f32 = lanes_float32_0[thread];
            let v6: f32 = lanes_float32_0[thread + 64];
            let v7: bool = v5 > v6;
            let v8: bool = (bitcast<u32>(v5) & 0x7fffffffu) > 0x7f800000u;
            let v9: bool = v7 | v8;
            let v10: f32 = select(v6, v5, v9);
            let v11: f32 = lanes_float32_0[thread + 128];
            let v12: bool = v10 > v11;
            let v13: bool = (bitcast<u32>(v10) & 0x7fffffffu) > 0x7f800000u;
            let v14: bool = v12 | v13;
            let v15: f32 = select(v11, v10, v14);
            let v16: f32 = lanes_float32_0[thread + 192];
            let v17: bool = v15 > v16;
            let v18: bool = (bitcast<u32>(v15) & 0x7fffffffu) > 0x7f800000u;
            let v19: bool = v17 | v18;
            let v20: f32 = select(v16, v15, v19);
            lanes_float32_0[thread] = v20;
        }
        workgroupBarrier();
        if (thread < 16) {
            let v21: f32 = lanes_float32_0[thread];
            let v22: f32 = lanes_float32_0[thread + 16];
            let v23: bool = v21 > v22;
            let v24: bool = (bitcast<u32>(v21) & 0x7fffffffu) > 0x7f800000u;
            let v25: bool = v23 | v24;
            let v26: f32 = select(v22, v21, v25);
            let v27: f32 = lanes_float32_0[thread + 32];
            let v28: bool = v26 > v27;
            let v29: bool = (bitcast<u32>(v26) & 0x7fffffffu) > 0x7f800000u;
            let v30: bool = v28 | v29;
            let v31: f32 = select(v27, v26, v30);
            let v32: f32 = lanes_float32_0[thread + 48];
            let v33: bool = v31 > v32;
            let v34: bool = (bitcast<u32>(v31) & 0x7fffffffu) > 0x7f800000u;
            let v35: bool = v33 | v34;
            let v36: f32 = select(v32, v31, v35);
            lanes_float32_0[thread] = v36;
        }
        workgroupBarrier();
        if (thread < 4) {
            let v37: f32 = lanes_float32_0[thread];
            let v38: f32 = lanes_float32_0[thread + 4];
            let v39: bool = v37 > v38;
            let v40: bool = (bitcast<u32>(v37) & 0x7fffffffu) > 0x7f800000u;
            let v41: bool = v39 | v40;
            let v42: f32 = select(v38, v37, v41);
            let v43: f32 = lanes_float32_0[thread + 8];
            let v44: bool = v42 > v43;
            let v45: bool = (bitcast<u32>(v42) & 0x7fffffffu) > 0x7f800000u;
            let v46: bool = v44 | v45;
            let v47: f32 = select(v43, v42, v46);
            let v48: f32 = lanes_float32_0[thread + 12];
            let v49: bool = v47 > v48;
            let v50: bool = (bitcast<u32>(v47) & 0x7fffffffu) > 0x7f800000u;
            let v51: bool = v49 | v50;
            let v52: f32 = select(v48, v47, v51);
            lanes_float32_0[thread] = v52;
        }
        workgroupBarrier();
        if (thread < 1) {
            let v53: f32 = lanes_float32_0[thread];
            let v54: f32 = lanes_float32_0[thread + 1];
            let v55: bool = v53 > v54;
            let v56: bool = (bitcast<u32>(v53) & 0x7fffffffu) > 0x7f800000u;
            let v57: bool = v55 | v56;
            let v58: f32 = select(v54, v53, v57);
            let v59: f32 = lanes_float32_0[thread + 2];
            let v60: bool = v58 > v59;
            let v61: bool = (bitcast<u32>(v58) & 0x7fffffffu) > 0x7f800000u;
            let v62: bool = v60 | v61;
            let v63: f32 = select(v59, v58, v62);
            let v64: f32 = lanes_float32_0[thread + 3];
            let v65: bool = v63 > v64;
            let v66: bool = (bitcast<u32>(v63) & 0x7fffffffu) > 0x7f800000u;
            let v67: bool = v65 | v66;
            let v68: f32 = select(v64, v63, v67);
            lanes_float32_0[thread] = v68;
        }
        workgroupBarrier();
        fold0_0 = lanes_float32_0[0];
        workgroupBarrier();
        var fold1_0: f32 = 0.0f;
        var fold1_0_block: f32 = 0.0f;
        var turns1: i32 = 0;
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v69: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v70: f32 = v69 - fold0_0;
            let v71: f32 = select(clamp(v70, (-104.0f), 89.0f), v70, (bitcast<u32>(v70) & 0x7fffffffu) > 0x7f800000u);
            let v72: f32 = v71 * 1.442695f;
            let v73: f32 = round(v72);
            let v74: f32 = fma(v73, (-0.69314575f), v71);
            let v75: f32 = fma(v73, (-1.4286068e-06f), v74);
            let v76: f32 = v75 * v75;
            let v77: f32 = fma(0.0001991374f, v75, 0.0013940377f);
            let v78: f32 = fma(v77, v75, 0.008333274f);
            let v79: f32 = fma(v78, v75, 0.041666366f);
            let v80: f32 = fma(v79, v75, 0.16666667f);
            let v81: f32 = fma(v80, v75, 0.5f);
            let v82: f32 = fma(v76, v81, v75);
            let v83: f32 = 1.0f + v82;
            let v84: f32 = v73 + 1.2582912e+07f;
            let v85: u32 = bitcast<u32>(v84);
            let v86: u32 = v85 >> (1u & 31u);
            let v87: u32 = v86 + 127u;
            let v88: u32 = v87 << (u32(23u) & 31u);
            let v89: f32 = bitcast<f32>(v88);
            let v90: f32 = v83 * v89;
            let v91: u32 = v85 - v86;
            let v92: u32 = v91 + 127u;
            let v93: u32 = v92 << (u32(23u) & 31u);
            let v94: f32 = bitcast<f32>(v93);
            let v95: f32 = v90 * v94;
            let v96: f32 = fold1_0_block + v95;
            fold1_0_block = v96;
            turns1 += 1;
            if (turns1 == 64) {
                let v97: f32 = fold1_0 + fold1_0_block;
                fold1_0 = v97;
                fold1_0_block = 0.0f;
                turns1 = 0;
            }
        }
        let v98: f32 = fold1_0 + fold1_0_block;
        fold1_0 = v98;
        lanes_float32_0[thread] = fold1_0;
        workgroupBarrier();
        if (thread < 64) {
            let v99: f32 = lanes_float32_0[thread];
            let v100: f32 = lanes_float32_0[thread + 64];
            let v101: f32 = v99 + v100;
            let v102: f32 = lanes_float32_0[thread + 128];
            let v103: f32 = v101 + v102;
            let v104: f32 = lanes_float32_0[thread + 192];
            let v105: f32 = v103 + v104;
            lanes_float32_0[thread] = v105;
        }
        workgroupBarrier();
        if (thread < 16) {
            let v106: f32 = lanes_float32_0[thread];
            let v107: f32 = lanes_float32_0[thread + 16];
            let v108: f32 = v106 + v107;
            let v109: f32 = lanes_float32_0[thread + 32];
            let v110: f32 = v108 + v109;
            let v111: f32 = lanes_float32_0[thread + 48];
            let v112: f32 = v110 + v111;
            lanes_float32_0[thread] = v112;
        }
        workgroupBarrier();
        if (thread < 4) {
            let v113: f32 = lanes_float32_0[thread];
            let v114: f32 = lanes_float32_0[thread + 4];
            let v115: f32 = v113 + v114;
            let v116: f32 = lanes_float32_0[thread + 8];
            let v117: f32 = v115 + v116;
            let v118: f32 = lanes_float32_0[thread + 12];
            let v119: f32 = v117 + v118;
            lanes_float32_0[thread] = v119;
        }
        workgroupBarrier();
        if (thread < 1) {
            let v120: f32 = lanes_float32_0[thread];
            let v121: f32 = lanes_float32_0[thread + 1];
            let v122: f32 = v120 + v121;
            let v123: f32 = lanes_float32_0[thread + 2];
            let v124: f32 = v122 + v123;
            let v125: f32 = lanes_float32_0[thread + 3];
            let v126: f32 = v124 + v125;
            lanes_float32_0[thread] = v126;
        }
        workgroupBarrier();
        fold1_0 = lanes_float32_0[0];
        workgroupBarrier();
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v127: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v128: f32 = v127 - fold0_0;
            let v129: f32 = select(clamp(v128, (-104.0f), 89.0f), v128, (bitcast<u32>(v128) & 0x7fffffffu) > 0x7f800000u);
            let v130: f32 = v129 * 1.442695f;
            let v131: f32 = round(v130);
            let v132: f32 = fma(v131, (-0.69314575f), v129);
            let v133: f32 = fma(v131, (-1.4286068e-06f), v132);
            let v134: f32 = v133 * v133;
            let v135: f32 = fma(0.0001991374f, v133, 0.0013940377f);
            let v136: f32 = fma(v135, v133, 0.008333274f);
            let v137: f32 = fma(v136, v133, 0.041666366f);
            let v138: f32 = fma(v137, v133, 0.16666667f);
            let v139: f32 = fma(v138, v133, 0.5f);
            let v140: f32 = fma(v134, v139, v133);
            let v141: f32 = 1.0f + v140;
            let v142: f32 = v131 + 1.2582912e+07f;
            let v143: u32 = bitcast<u32>(v142);
            let v144: u32 = v143 >> (1u & 31u);
            let v145: u32 = v144 + 127u;
            let v146: u32 = v145 << (u32(23u) & 31u);
            let v147: f32 = bitcast<f32>(v146);
            let v148: f32 = v141 * v147;
            let v149: u32 = v143 - v144;
            let v150: u32 = v149 + 127u;
            let v151: u32 = v150 << (u32(23u) & 31u);
            let v152: f32 = bitcast<f32>(v151);
            let v153: f32 = v148 * v152;
            let v154: f32 = v153 / fold1_0;
            operand1[offset1 + i0 * stride1_0 + i1] = v154;
        }
    }
}
