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
            let v24: f32 = 0.0001991374f * v22 + 0.0013940377f;
            let v25: f32 = v24 * v22 + 0.008333274f;
            let v26: f32 = v25 * v22 + 0.041666366f;
            let v27: f32 = v26 * v22 + 0.16666667f;
            let v28: f32 = v27 * v22 + 0.5f;
            let v29: f32 = v23 * v28;
            let v30: f32 = v22 + v29;
            let v31: f32 = 1.0f + v30;
            let v32: f32 = v18 * 0.5f;
            let v33: f32 = floor(v32);
            let v34: f32 = v33 + 1.2582912e+07f;
            let v35: u32 = bitcast<u32>(v34);
            let v36: u32 = v35 + 127u;
            let v37: u32 = v36 << (u32(23u) & 31u);
            let v38: f32 = bitcast<f32>(v37);
            let v39: f32 = v31 * v38;
            let v40: f32 = v18 - v33;
            let v41: f32 = v40 + 1.2582912e+07f;
            let v42: u32 = bitcast<u32>(v41);
            let v43: u32 = v42 + 127u;
            let v44: u32 = v43 << (u32(23u) & 31u);
            let v45: f32 = bitcast<f32>(v44);
            let v46: f32 = v39 * v45;
            let v47: f32 = fold1_0 + v46;
            fold1_0 = v47;
        }
        lanes_float32_0[thread] = fold1_0;
        workgroupBarrier();
        for (var reach: i32 = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                let v48: f32 = lanes_float32_0[thread];
                let v49: f32 = lanes_float32_0[thread + reach];
                let v50: f32 = v48 + v49;
                lanes_float32_0[thread] = v50;
            }
            workgroupBarrier();
        }
        fold1_0 = lanes_float32_0[0];
        workgroupBarrier();
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v51: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v52: f32 = v51 - fold0_0;
            let v53: bool = v52 < (-104.0f);
            let v54: bool = v52 > 89.0f;
            let v55: f32 = select(v52, 89.0f, v54);
            let v56: f32 = select(v55, (-104.0f), v53);
            let v57: f32 = v56 * 1.442695f;
            let v58: f32 = round(v57);
            let v59: f32 = v58 * 0.69314575f;
            let v60: f32 = v56 - v59;
            let v61: f32 = v58 * 1.4286068e-06f;
            let v62: f32 = v60 - v61;
            let v63: f32 = v62 * v62;
            let v64: f32 = 0.0001991374f * v62 + 0.0013940377f;
            let v65: f32 = v64 * v62 + 0.008333274f;
            let v66: f32 = v65 * v62 + 0.041666366f;
            let v67: f32 = v66 * v62 + 0.16666667f;
            let v68: f32 = v67 * v62 + 0.5f;
            let v69: f32 = v63 * v68;
            let v70: f32 = v62 + v69;
            let v71: f32 = 1.0f + v70;
            let v72: f32 = v58 * 0.5f;
            let v73: f32 = floor(v72);
            let v74: f32 = v73 + 1.2582912e+07f;
            let v75: u32 = bitcast<u32>(v74);
            let v76: u32 = v75 + 127u;
            let v77: u32 = v76 << (u32(23u) & 31u);
            let v78: f32 = bitcast<f32>(v77);
            let v79: f32 = v71 * v78;
            let v80: f32 = v58 - v73;
            let v81: f32 = v80 + 1.2582912e+07f;
            let v82: u32 = bitcast<u32>(v81);
            let v83: u32 = v82 + 127u;
            let v84: u32 = v83 << (u32(23u) & 31u);
            let v85: f32 = bitcast<f32>(v84);
            let v86: f32 = v79 * v85;
            let v87: f32 = v86 / fold1_0;
            operand1[offset1 + i0 * stride1_0 + i1] = v87;
        }
    }
}
