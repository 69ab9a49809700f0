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
        var fold1_0_block: f32 = 0.0f;
        var turns1: i32 = 0;
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
            let v19: f32 = fma(v18, (-0.69314575f), v16);
            let v20: f32 = fma(v18, (-1.4286068e-06f), v19);
            let v21: f32 = v20 * v20;
            let v22: f32 = fma(0.0001991374f, v20, 0.0013940377f);
            let v23: f32 = fma(v22, v20, 0.008333274f);
            let v24: f32 = fma(v23, v20, 0.041666366f);
            let v25: f32 = fma(v24, v20, 0.16666667f);
            let v26: f32 = fma(v25, v20, 0.5f);
            let v27: f32 = fma(v21, v26, v20);
            let v28: f32 = 1.0f + v27;
            let v29: f32 = v18 + 1.2582912e+07f;
            let v30: u32 = bitcast<u32>(v29);
            let v31: u32 = v30 >> (1u & 31u);
            let v32: u32 = v31 + 127u;
            let v33: u32 = v32 << (u32(23u) & 31u);
            let v34: f32 = bitcast<f32>(v33);
            let v35: f32 = v28 * v34;
            let v36: u32 = v30 - v31;
            let v37: u32 = v36 + 127u;
            let v38: u32 = v37 << (u32(23u) & 31u);
            let v39: f32 = bitcast<f32>(v38);
            let v40: f32 = v35 * v39;
            let v41: f32 = fold1_0_block + v40;
            fold1_0_block = v41;
            turns1 += 1;
            if (turns1 == 64) {
                let v42: f32 = fold1_0 + fold1_0_block;
                fold1_0 = v42;
                fold1_0_block = 0.0f;
                turns1 = 0;
            }
        }
        let v43: f32 = fold1_0 + fold1_0_block;
        fold1_0 = v43;
        lanes_float32_0[thread] = fold1_0;
        workgroupBarrier();
        for (var reach: i32 = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                let v44: f32 = lanes_float32_0[thread];
                let v45: f32 = lanes_float32_0[thread + reach];
                let v46: f32 = v44 + v45;
                lanes_float32_0[thread] = v46;
            }
            workgroupBarrier();
        }
        fold1_0 = lanes_float32_0[0];
        workgroupBarrier();
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v47: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v48: f32 = v47 - fold0_0;
            let v49: bool = v48 < (-104.0f);
            let v50: bool = v48 > 89.0f;
            let v51: f32 = select(v48, 89.0f, v50);
            let v52: f32 = select(v51, (-104.0f), v49);
            let v53: f32 = v52 * 1.442695f;
            let v54: f32 = round(v53);
            let v55: f32 = fma(v54, (-0.69314575f), v52);
            let v56: f32 = fma(v54, (-1.4286068e-06f), v55);
            let v57: f32 = v56 * v56;
            let v58: f32 = fma(0.0001991374f, v56, 0.0013940377f);
            let v59: f32 = fma(v58, v56, 0.008333274f);
            let v60: f32 = fma(v59, v56, 0.041666366f);
            let v61: f32 = fma(v60, v56, 0.16666667f);
            let v62: f32 = fma(v61, v56, 0.5f);
            let v63: f32 = fma(v57, v62, v56);
            let v64: f32 = 1.0f + v63;
            let v65: f32 = v54 + 1.2582912e+07f;
            let v66: u32 = bitcast<u32>(v65);
            let v67: u32 = v66 >> (1u & 31u);
            let v68: u32 = v67 + 127u;
            let v69: u32 = v68 << (u32(23u) & 31u);
            let v70: f32 = bitcast<f32>(v69);
            let v71: f32 = v64 * v70;
            let v72: u32 = v66 - v67;
            let v73: u32 = v72 + 127u;
            let v74: u32 = v73 << (u32(23u) & 31u);
            let v75: f32 = bitcast<f32>(v74);
            let v76: f32 = v71 * v75;
            let v77: f32 = v76 / fold1_0;
            operand1[offset1 + i0 * stride1_0 + i1] = v77;
        }
    }
}
