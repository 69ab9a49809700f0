struct Arguments { zero: u32, size0: i32, size1: i32, offset0: i32, offset1: i32, offset2: i32, stride0_0: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read_write> operand1: array<f32>;
@group(0) @binding(4) var<storage, read_write> operand2: array<i32>;
var<workgroup> lanes_float32_0: array<f32, 256>;
var<workgroup> lanes_int64_0: array<i32, 256>;

@compute @workgroup_size(256)
fn row_081da45b9f40(
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
    let offset2: i32 = arguments.offset2;
    let stride0_0: i32 = arguments.stride0_0;
    let points: i32 = size0;
    let elements: i32 = size1;
    for (var point: i32 = group; point < points; point += groups) {
        let i0: i32 = point;
        var fold0_0: f32 = bitcast<f32>(0xff800000u | arguments.zero);
        var fold0_1: i32 = 2147483647i;
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v0: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v1: bool = fold0_0 > v0;
            let v2: bool = fold0_0 == v0;
            let v3: bool = fold0_1 < i1;
            let v4: bool = v2 & v3;
            let v5: bool = v1 | v4;
            let v6: f32 = select(v0, fold0_0, v5);
            let v7: i32 = select(i1, fold0_1, v5);
            fold0_0 = v6;
            fold0_1 = v7;
        }
        lanes_float32_0[thread] = fold0_0;
        lanes_int64_0[thread] = fold0_1;
        workgroupBarrier();
        if (thread < 64) {
            let v8: f32 = lanes_float32_0[thread];
            let v9: i32 = lanes_int64_0[thread];
            let v10: f32 = lanes_float32_0[thread + 64];
            let v11: i32 = lanes_int64_0[thread + 64];
            let v12: bool = v8 > v10;
            let v13: bool = v8 == v10;
            let v14: bool = v9 < v11;
            let v15: bool = v13 & v14;
            let v16: bool = v12 | v15;
            let v17: f32 = select(v10, v8, v16);
            let v18: i32 = select(v11, v9, v16);
            let v19: f32 = lanes_float32_0[thread + 128];
            let v20: i32 = lanes_int64_0[thread + 128];
            let v21: bool = v17 > v19;
            let v22: bool = v17 == v19;
            let v23: bool = v18 < v20;
            let v24: bool = v22 & v23;
            let v25: bool = v21 | v24;
            let v26: f32 = select(v19, v17, v25);
            let v27: i32 = select(v20, v18, v25);
            let v28: f32 = lanes_float32_0[thread + 192];
            let v29: i32 = lanes_int64_0[thread + 192];
            let v30: bool = v26 > v28;
            let v31: bool = v26 == v28;
            let v32: bool = v27 < v29;
            let v33: bool = v31 & v32;
            let v34: bool = v30 | v33;
            let v35: f32 = select(v28, v26, v34);
            let v36: i32 = select(v29, v27, v34);
            lanes_float32_0[thread] = v35;
            lanes_int64_0[thread] = v36;
        }
        workgroupBarrier();
        if (thread < 16) {
            let v37: f32 = lanes_float32_0[thread];
            let v38: i32 = lanes_int64_0[thread];
            let v39: f32 = lanes_float32_0[thread + 16];
            let v40: i32 = lanes_int64_0[thread + 16];
            let v41: bool = v37 > v39;
            let v42: bool = v37 == v39;
            let v43: bool = v38 < v40;
            let v44: bool = v42 & v43;
            let v45: bool = v41 | v44;
            let v46: f32 = select(v39, v37, v45);
            let v47: i32 = select(v40, v38, v45);
            let v48: f32 = lanes_float32_0[thread + 32];
            let v49: i32 = lanes_int64_0[thread + 32];
            let v50: bool = v46 > v48;
            let v51: bool = v46 == v48;
            let v52: bool = v47 < v49;
            let v53: bool = v51 & v52;
            let v54: bool = v50 | v53;
            let v55: f32 = select(v48, v46, v54);
            let v56: i32 = select(v49, v47, v54);
            let v57: f32 = lanes_float32_0[thread + 48];
            let v58: i32 = lanes_int64_0[thread + 48];
            let v59: bool = v55 > v57;
            let v60: bool = v55 == v57;
            let v61: bool = v56 < v58;
            let v62: bool = v60 & v61;
            let v63: bool = v59 | v62;
            let v64: f32 = select(v57, v55, v63);
            let v65: i32 = select(v58, v56, v63);
            lanes_float32_0[thread] = v64;
            lanes_int64_0[thread] = v65;
        }
        workgroupBarrier();
        if (thread < 4) {
            let v66: f32 = lanes_float32_0[thread];
            let v67: i32 = lanes_int64_0[thread];
            let v68: f32 = lanes_float32_0[thread + 4];
            let v69: i32 = lanes_int64_0[thread + 4];
            let v70: bool = v66 > v68;
            let v71: bool = v66 == v68;
            let v72: bool = v67 < v69;
            let v73: bool = v71 & v72;
            let v74: bool = v70 | v73;
            let v75: f32 = select(v68, v66, v74);
            let v76: i32 = select(v69, v67, v74);
            let v77: f32 = lanes_float32_0[thread + 8];
            let v78: i32 = lanes_int64_0[thread + 8];
            let v79: bool = v75 > v77;
            let v80: bool = v75 == v77;
            let v81: bool = v76 < v78;
            let v82: bool = v80 & v81;
            let v83: bool = v79 | v82;
            let v84: f32 = select(v77, v75, v83);
            let v85: i32 = select(v78, v76, v83);
            let v86: f32 = lanes_float32_0[thread + 12];
            let v87: i32 = lanes_int64_0[thread + 12];
            let v88: bool = v84 > v86;
            let v89: bool = v84 == v86;
            let v90: bool = v85 < v87;
            let v91: bool = v89 & v90;
            let v92: bool = v88 | v91;
            let v93: f32 = select(v86, v84, v92);
            let v94: i32 = select(v87, v85, v92);
            lanes_float32_0[thread] = v93;
            lanes_int64_0[thread] = v94;
        }
        workgroupBarrier();
        if (thread < 1) {
            let v95: f32 = lanes_float32_0[thread];
            let v96: i32 = lanes_int64_0[thread];
            let v97: f32 = lanes_float32_0[thread + 1];
            let v98: i32 = lanes_int64_0[thread + 1];
            let v99: bool = v95 > v97;
            let v100: bool = v95 == v97;
            let v101: bool = v96 < v98;
            let v102: bool = v100 & v101;
            let v103: bool = v99 | v102;
            let v104: f32 = select(v97, v95, v103);
            let v105: i32 = select(v98, v96, v103);
            let v106: f32 = lanes_float32_0[thread + 2];
            let v107: i32 = lanes_int64_0[thread + 2];
            let v108: bool = v104 > v106;
            let v109: bool = v104 == v106;
            let v110: bool = v105 < v107;
            let v111: bool = v109 & v110;
            let v112: bool = v108 | v111;
            let v113: f32 = select(v106, v104, v112);
            let v114: i32 = select(v107, v105, v112);
            let v115: f32 = lanes_float32_0[thread + 3];
            let v116: i32 = lanes_int64_0[thread + 3];
            let v117: bool = v113 > v115;
            let v118: bool = v113 == v115;
            let v119: bool = v114 < v116;
            let v120: bool = v118 & v119;
            let v121: bool = v117 | v120;
            let v122: f32 = select(v115, v113, v121);
            let v123: i32 = select(v116, v114, v121);
            lanes_float32_0[thread] = v122;
            lanes_int64_0[thread] = v123;
        }
        workgroupBarrier();
        fold0_0 = lanes_float32_0[0];
        fold0_1 = lanes_int64_0[0];
        workgroupBarrier();
        if (thread == 0) {
            operand1[offset1 + i0] = fold0_0;
            operand2[offset2 + i0] = fold0_1;
        }
    }
}
