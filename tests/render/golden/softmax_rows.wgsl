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
    let thread: i32 = i32(local) % 64 * 4 + i32(local) / 64;
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
    let column: i32 = thread % 4;
    let elements: i32 = size1;
    for (var point: i32 = group * 4; point < points; point += groups * 4) {
        let within: bool = point + column < points;
        let own: i32 = min(point + column, points - 1);
        let i0: i32 = own;
        var fold0_0: f32 = bitcast<f32>(0xff800000u | arguments.zero);
        for (var element: i32 = thread / 4; element < elements; element += threads / 4) {
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
        fold0_0 = lanes_float32_0[column];
        workgroupBarrier();
        var fold1_0: f32 = 0.0f;
        var fold1_0_block: f32 = 0.0f;
        var turns1: i32 = 0;
        for (var element: i32 = thread / 4; element < elements; element += threads / 4) {
            let i1: i32 = element;
            let v53: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v54: f32 = v53 - fold0_0;
            let v55: f32 = select(clamp(v54, (-104.0f), 89.0f), v54, (bitcast<u32>(v54) & 0x7fffffffu) > 0x7f800000u);
            let v56: f32 = v55 * 1.442695f;
            let v57: f32 = round(v56);
            let v58: f32 = fma(v57, (-0.69314575f), v55);
            let v59: f32 = fma(v57, (-1.4286068e-06f), v58);
            let v60: f32 = v59 * v59;
            let v61: f32 = fma(0.0001991374f, v59, 0.0013940377f);
            let v62: f32 = fma(v61, v59, 0.008333274f);
            let v63: f32 = fma(v62, v59, 0.041666366f);
            let v64: f32 = fma(v63, v59, 0.16666667f);
            let v65: f32 = fma(v64, v59, 0.5f);
            let v66: f32 = fma(v60, v65, v59);
            let v67: f32 = 1.0f + v66;
            let v68: f32 = v57 + 1.2582912e+07f;
            let v69: u32 = bitcast<u32>(v68);
            let v70: u32 = v69 >> (1u & 31u);
            let v71: u32 = v70 + 127u;
            let v72: u32 = v71 << (u32(23u) & 31u);
            let v73: f32 = bitcast<f32>(v72);
            let v74: f32 = v67 * v73;
            let v75: u32 = v69 - v70;
            let v76: u32 = v75 + 127u;
            let v77: u32 = v76 << (u32(23u) & 31u);
            let v78: f32 = bitcast<f32>(v77);
            let v79: f32 = v74 * v78;
            let v80: f32 = fold1_0_block + v79;
            fold1_0_block = v80;
            turns1 += 1;
            if (turns1 == 64) {
                let v81: f32 = fold1_0 + fold1_0_block;
                fold1_0 = v81;
                fold1_0_block = 0.0f;
                turns1 = 0;
            }
        }
        let v82: f32 = fold1_0 + fold1_0_block;
        fold1_0 = v82;
        lanes_float32_0[thread] = fold1_0;
        workgroupBarrier();
        if (thread < 64) {
            let v83: f32 = lanes_float32_0[thread];
            let v84: f32 = lanes_float32_0[thread + 64];
            let v85: f32 = v83 + v84;
            let v86: f32 = lanes_float32_0[thread + 128];
            let v87: f32 = v85 + v86;
            let v88: f32 = lanes_float32_0[thread + 192];
            let v89: f32 = v87 + v88;
            lanes_float32_0[thread] = v89;
        }
        workgroupBarrier();
        if (thread < 16) {
            let v90: f32 = lanes_float32_0[thread];
            let v91: f32 = lanes_float32_0[thread + 16];
            let v92: f32 = v90 + v91;
            let v93: f32 = lanes_float32_0[thread + 32];
            let v94: f32 = v92 + v93;
            let v95: f32 = lanes_float32_0[thread + 48];
            let v96: f32 = v94 + v95;
            lanes_float32_0[thread] = v96;
        }
        workgroupBarrier();
        if (thread < 4) {
            let v97: f32 = lanes_float32_0[thread];
            let v98: f32 = lanes_float32_0[thread + 4];
            let v99: f32 = v97 + v98;
            let v100: f32 = lanes_float32_0[thread + 8];
            let v101: f32 = v99 + v100;
            let v102: f32 = lanes_float32_0[thread + 12];
            let v103: f32 = v101 + v102;
            lanes_float32_0[thread] = v103;
        }
        workgroupBarrier();
        fold1_0 = lanes_float32_0[column];
        workgroupBarrier();
        for (var element: i32 = thread / 4; element < elements; element += threads / 4) {
            let i1: i32 = element;
            let v104: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v105: f32 = v104 - fold0_0;
            let v106: f32 = select(clamp(v105, (-104.0f), 89.0f), v105, (bitcast<u32>(v105) & 0x7fffffffu) > 0x7f800000u);
            let v107: f32 = v106 * 1.442695f;
            let v108: f32 = round(v107);
            let v109: f32 = fma(v108, (-0.69314575f), v106);
            let v110: f32 = fma(v108, (-1.4286068e-06f), v109);
            let v111: f32 = v110 * v110;
            let v112: f32 = fma(0.0001991374f, v110, 0.0013940377f);
            let v113: f32 = fma(v112, v110, 0.008333274f);
            let v114: f32 = fma(v113, v110, 0.041666366f);
            let v115: f32 = fma(v114, v110, 0.16666667f);
            let v116: f32 = fma(v115, v110, 0.5f);
            let v117: f32 = fma(v111, v116, v110);
            let v118: f32 = 1.0f + v117;
            let v119: f32 = v108 + 1.2582912e+07f;
            let v120: u32 = bitcast<u32>(v119);
            let v121: u32 = v120 >> (1u & 31u);
            let v122: u32 = v121 + 127u;
            let v123: u32 = v122 << (u32(23u) & 31u);
            let v124: f32 = bitcast<f32>(v123);
            let v125: f32 = v118 * v124;
            let v126: u32 = v120 - v121;
            let v127: u32 = v126 + 127u;
            let v128: u32 = v127 << (u32(23u) & 31u);
            let v129: f32 = bitcast<f32>(v128);
            let v130: f32 = v125 * v129;
            let v131: f32 = v130 / fold1_0;
            if (within) { operand1[offset1 + i0 * stride1_0 + i1] = v131; }
        }
    }
}
