struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, offset0: i32, offset1: i32, offset2: i32, stride0_0: i32, stride1_1: i32, stride2_1: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read_write> operand1: array<f32>;
@group(0) @binding(4) var<storage, read_write> operand2: array<f32>;
var<workgroup> lanes_float32_0: array<f32, 256>;
var<workgroup> lanes_float32_1: array<f32, 256>;

@compute @workgroup_size(256)
fn row_f649c314a993(
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
    let offset0: i32 = arguments.offset0;
    let offset1: i32 = arguments.offset1;
    let offset2: i32 = arguments.offset2;
    let stride0_0: i32 = arguments.stride0_0;
    let stride1_1: i32 = arguments.stride1_1;
    let stride2_1: i32 = arguments.stride2_1;
    let points: i32 = size0 * size1;
    for (var point: i32 = group; point < points; point += groups) {
        let i1: i32 = point % size1;
        let i0: i32 = point / size1;
        let length: i32 = (size2 + size1 * 64 - 1) / (size1 * 64) * 64;
        let start: i32 = min(i1 * length, size2);
        let stop: i32 = min(start + length, size2);
        let elements: i32 = (stop - start);
        var fold0_0: f32 = 0.0f;
        var fold0_0_block: f32 = 0.0f;
        var fold1_0: f32 = bitcast<f32>(0xff800000u | arguments.zero);
        var fold1_0_block: f32 = bitcast<f32>(0xff800000u | arguments.zero);
        var turns0: i32 = 0;
        for (var element: i32 = thread; element < elements; element += threads) {
            let i2: i32 = start + element;
            let v0: f32 = operand0[offset0 + i0 * stride0_0 + i2];
            let v1: f32 = fold0_0_block + v0;
            fold0_0_block = v1;
            let v2: bool = fold1_0_block > v0;
            let v3: bool = (bitcast<u32>(fold1_0_block) & 0x7fffffffu) > 0x7f800000u;
            let v4: bool = v2 | v3;
            let v5: f32 = select(v0, fold1_0_block, v4);
            fold1_0_block = v5;
            turns0 += 1;
            if (turns0 == 64) {
                let v6: f32 = fold0_0 + fold0_0_block;
                fold0_0 = v6;
                let v7: bool = fold1_0 > fold1_0_block;
                let v8: bool = (bitcast<u32>(fold1_0) & 0x7fffffffu) > 0x7f800000u;
                let v9: bool = v7 | v8;
                let v10: f32 = select(fold1_0_block, fold1_0, v9);
                fold1_0 = v10;
                fold0_0_block = 0.0f;
                fold1_0_block = bitcast<f32>(0xff800000u | arguments.zero);
                turns0 = 0;
            }
        }
        let v11: f32 = fold0_0 + fold0_0_block;
        fold0_0 = v11;
        let v12: bool = fold1_0 > fold1_0_block;
        let v13: bool = (bitcast<u32>(fold1_0) & 0x7fffffffu) > 0x7f800000u;
        let v14: bool = v12 | v13;
        let v15: f32 = select(fold1_0_block, fold1_0, v14);
        fold1_0 = v15;
        lanes_float32_0[thread] = fold0_0;
        lanes_float32_1[thread] = fold1_0;
        workgroupBarrier();
        if (thread < 64) {
            let v16: f32 = lanes_float32_0[thread];
            let v17: f32 = lanes_float32_0[thread + 64];
            let v18: f32 = v16 + v17;
            let v19: f32 = lanes_float32_0[thread + 128];
            let v20: f32 = v18 + v19;
            let v21: f32 = lanes_float32_0[thread + 192];
            let v22: f32 = v20 + v21;
            lanes_float32_0[thread] = v22;
            let v23: f32 = lanes_float32_1[thread];
            let v24: f32 = lanes_float32_1[thread + 64];
            let v25: bool = v23 > v24;
            let v26: bool = (bitcast<u32>(v23) & 0x7fffffffu) > 0x7f800000u;
            let v27: bool = v25 | v26;
            let v28: f32 = select(v24, v23, v27);
            let v29: f32 = lanes_float32_1[thread + 128];
            let v30: bool = v28 > v29;
            let v31: bool = (bitcast<u32>(v28) & 0x7fffffffu) > 0x7f800000u;
            let v32: bool = v30 | v31;
            let v33: f32 = select(v29, v28, v32);
            let v34: f32 = lanes_float32_1[thread + 192];
            let v35: bool = v33 > v34;
            let v36: bool = (bitcast<u32>(v33) & 0x7fffffffu) > 0x7f800000u;
            let v37: bool = v35 | v36;
            let v38: f32 = select(v34, v33, v37);
            lanes_float32_1[thread] = v38;
        }
        workgroupBarrier();
        if (thread < 16) {
            let v39: f32 = lanes_float32_0[thread];
            let v40: f32 = lanes_float32_0[thread + 16];
            let v41: f32 = v39 + v40;
            let v42: f32 = lanes_float32_0[thread + 32];
            let v43: f32 = v41 + v42;
            let v44: f32 = lanes_float32_0[thread + 48];
            let v45: f32 = v43 + v44;
            lanes_float32_0[thread] = v45;
            let v46: f32 = lanes_float32_1[thread];
            let v47: f32 = lanes_float32_1[thread + 16];
            let v48: bool = v46 > v47;
            let v49: bool = (bitcast<u32>(v46) & 0x7fffffffu) > 0x7f800000u;
            let v50: bool = v48 | v49;
            let v51: f32 = select(v47, v46, v50);
            let v52: f32 = lanes_float32_1[thread + 32];
            let v53: bool = v51 > v52;
            let v54: bool = (bitcast<u32>(v51) & 0x7fffffffu) > 0x7f800000u;
            let v55: bool = v53 | v54;
            let v56: f32 = select(v52, v51, v55);
            let v57: f32 = lanes_float32_1[thread + 48];
            let v58: bool = v56 > v57;
            let v59: bool = (bitcast<u32>(v56) & 0x7fffffffu) > 0x7f800000u;
            let v60: bool = v58 | v59;
            let v61: f32 = select(v57, v56, v60);
            lanes_float32_1[thread] = v61;
        }
        workgroupBarrier();
        if (thread < 4) {
            let v62: f32 = lanes_float32_0[thread];
            let v63: f32 = lanes_float32_0[thread + 4];
            let v64: f32 = v62 + v63;
            let v65: f32 = lanes_float32_0[thread + 8];
            let v66: f32 = v64 + v65;
            let v67: f32 = lanes_float32_0[thread + 12];
            let v68: f32 = v66 + v67;
            lanes_float32_0[thread] = v68;
            let v69: f32 = lanes_float32_1[thread];
            let v70: f32 = lanes_float32_1[thread + 4];
            let v71: bool = v69 > v70;
            let v72: bool = (bitcast<u32>(v69) & 0x7fffffffu) > 0x7f800000u;
            let v73: bool = v71 | v72;
            let v74: f32 = select(v70, v69, v73);
            let v75: f32 = lanes_float32_1[thread + 8];
            let v76: bool = v74 > v75;
            let v77: bool = (bitcast<u32>(v74) & 0x7fffffffu) > 0x7f800000u;
            let v78: bool = v76 | v77;
            let v79: f32 = select(v75, v74, v78);
            let v80: f32 = lanes_float32_1[thread + 12];
            let v81: bool = v79 > v80;
            let v82: bool = (bitcast<u32>(v79) & 0x7fffffffu) > 0x7f800000u;
            let v83: bool = v81 | v82;
            let v84: f32 = select(v80, v79, v83);
            lanes_float32_1[thread] = v84;
        }
        workgroupBarrier();
        if (thread < 1) {
            let v85: f32 = lanes_float32_0[thread];
            let v86: f32 = lanes_float32_0[thread + 1];
            let v87: f32 = v85 + v86;
            let v88: f32 = lanes_float32_0[thread + 2];
            let v89: f32 = v87 + v88;
            let v90: f32 = lanes_float32_0[thread + 3];
            let v91: f32 = v89 + v90;
            lanes_float32_0[thread] = v91;
            let v92: f32 = lanes_float32_1[thread];
            let v93: f32 = lanes_float32_1[thread + 1];
            let v94: bool = v92 > v93;
            let v95: bool = (bitcast<u32>(v92) & 0x7fffffffu) > 0x7f800000u;
            let v96: bool = v94 | v95;
            let v97: f32 = select(v93, v92, v96);
            let v98: f32 = lanes_float32_1[thread + 2];
            let v99: bool = v97 > v98;
            let v100: bool = (bitcast<u32>(v97) & 0x7fffffffu) > 0x7f800000u;
            let v101: bool = v99 | v100;
            let v102: f32 = select(v98, v97, v101);
            let v103: f32 = lanes_float32_1[thread + 3];
            let v104: bool = v102 > v103;
            let v105: bool = (bitcast<u32>(v102) & 0x7fffffffu) > 0x7f800000u;
            let v106: bool = v104 | v105;
            let v107: f32 = select(v103, v102, v106);
            lanes_float32_1[thread] = v107;
        }
        workgroupBarrier();
        fold0_0 = lanes_float32_0[0];
        fold1_0 = lanes_float32_1[0];
        workgroupBarrier();
        if (thread == 0) {
            operand1[offset1 + i0 + i1 * stride1_1] = fold0_0;
            operand2[offset2 + i0 + i1 * stride2_1] = fold1_0;
        }
    }
}
