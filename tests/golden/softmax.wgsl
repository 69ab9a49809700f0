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
        for (var reach: i32 = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                let v5: f32 = lanes_float32_0[thread];
                let v6: f32 = lanes_float32_0[thread + reach];
                let v7: bool = v5 > v6;
                let v8: bool = (bitcast<u32>(v5) & 0x7fffffffu) > 0x7f800000u;
                let v9: bool = v7 | v8;
                let v10: f32 = select(v6, v5, v9);
                lanes_float32_0[thread] = v10;
            }
            workgroupBarrier();
        }
        fold0_0 = lanes_float32_0[0];
        workgroupBarrier();
        var fold1_0: f32 = 0.0f;
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v11: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v12: f32 = v11 - fold0_0;
            let v13: bool = v12 < (-104.0f);
            let v14: bool = v12 > 89.0f;
            let v15: f32 = select(v12, 89.0f, v14);
            let v16: f32 = select(v15, (-104.0f), v13);
            let v17: f32 = v16 * 1.442695f;
            let v18: f32 = round(v17);
            let v19: f32 = v18 * 0.69314575f;
            let v20: f32 = v16 - v19;
            let v21: f32 = v18 * 1.4286068e-06f;
            let v22: f32 = v20 - v21;
            let v23: f32 = v22 * v22;
            let v24: f32 = 0.0001991374f * v22;
            let v25: f32 = v24 + 0.0013940377f;
            let v26: f32 = v25 * v22;
            let v27: f32 = v26 + 0.008333274f;
            let v28: f32 = v27 * v22;
            let v29: f32 = v28 + 0.041666366f;
            let v30: f32 = v29 * v22;
            let v31: f32 = v30 + 0.16666667f;
            let v32: f32 = v31 * v22;
            let v33: f32 = v32 + 0.5f;
            let v34: f32 = v23 * v33;
            let v35: f32 = v22 + v34;
            let v36: f32 = 1.0f + v35;
            let v37: f32 = v18 * 0.5f;
            let v38: f32 = floor(v37);
            let v39: f32 = v38 + 1.2582912e+07f;
            let v40: u32 = bitcast<u32>(v39);
            let v41: u32 = v40 + 127u;
            let v42: u32 = v41 << (u32(23u) & 31u);
            let v43: f32 = bitcast<f32>(v42);
            let v44: f32 = v36 * v43;
            let v45: f32 = v18 - v38;
            let v46: f32 = v45 + 1.2582912e+07f;
            let v47: u32 = bitcast<u32>(v46);
            let v48: u32 = v47 + 127u;
            let v49: u32 = v48 << (u32(23u) & 31u);
            let v50: f32 = bitcast<f32>(v49);
            let v51: f32 = v44 * v50;
            let v52: f32 = fold1_0 + v51;
            fold1_0 = v52;
        }
        lanes_float32_0[thread] = fold1_0;
        workgroupBarrier();
        for (var reach: i32 = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                let v53: f32 = lanes_float32_0[thread];
                let v54: f32 = lanes_float32_0[thread + reach];
                let v55: f32 = v53 + v54;
                lanes_float32_0[thread] = v55;
            }
            workgroupBarrier();
        }
        fold1_0 = lanes_float32_0[0];
        workgroupBarrier();
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v56: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v57: f32 = v56 - fold0_0;
            let v58: bool = v57 < (-104.0f);
            let v59: bool = v57 > 89.0f;
            let v60: f32 = select(v57, 89.0f, v59);
            let v61: f32 = select(v60, (-104.0f), v58);
            let v62: f32 = v61 * 1.442695f;
            let v63: f32 = round(v62);
            let v64: f32 = v63 * 0.69314575f;
            let v65: f32 = v61 - v64;
            let v66: f32 = v63 * 1.4286068e-06f;
            let v67: f32 = v65 - v66;
            let v68: f32 = v67 * v67;
            let v69: f32 = 0.0001991374f * v67;
            let v70: f32 = v69 + 0.0013940377f;
            let v71: f32 = v70 * v67;
            let v72: f32 = v71 + 0.008333274f;
            let v73: f32 = v72 * v67;
            let v74: f32 = v73 + 0.041666366f;
            let v75: f32 = v74 * v67;
            let v76: f32 = v75 + 0.16666667f;
            let v77: f32 = v76 * v67;
            let v78: f32 = v77 + 0.5f;
            let v79: f32 = v68 * v78;
            let v80: f32 = v67 + v79;
            let v81: f32 = 1.0f + v80;
            let v82: f32 = v63 * 0.5f;
            let v83: f32 = floor(v82);
            let v84: f32 = v83 + 1.2582912e+07f;
            let v85: u32 = bitcast<u32>(v84);
            let v86: u32 = v85 + 127u;
            let v87: u32 = v86 << (u32(23u) & 31u);
            let v88: f32 = bitcast<f32>(v87);
            let v89: f32 = v81 * v88;
            let v90: f32 = v63 - v83;
            let v91: f32 = v90 + 1.2582912e+07f;
            let v92: u32 = bitcast<u32>(v91);
            let v93: u32 = v92 + 127u;
            let v94: u32 = v93 << (u32(23u) & 31u);
            let v95: f32 = bitcast<f32>(v94);
            let v96: f32 = v89 * v95;
            let v97: f32 = v96 / fold1_0;
            operand1[offset1 + i0 * stride1_0 + i1] = v97;
        }
    }
}
