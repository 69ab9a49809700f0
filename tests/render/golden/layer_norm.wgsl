struct Arguments { zero: u32, size0: i32, size1: i32, offset0: i32, offset1: i32, offset2: i32, offset5: i32, offset6: i32, offset7: i32, stride0_0: i32, stride5_0: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar3: f32, scalar4: f32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read> operand1: array<f32>;
@group(0) @binding(4) var<storage, read> operand2: array<f32>;
@group(0) @binding(5) var<storage, read_write> operand5: array<f32>;
@group(0) @binding(6) var<storage, read_write> operand6: array<f32>;
@group(0) @binding(7) var<storage, read_write> operand7: array<f32>;
var<workgroup> lanes_float32_0: array<f32, 256>;

@compute @workgroup_size(256)
fn row_6c9cbc6cbfe7(
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
    let offset5: i32 = arguments.offset5;
    let offset6: i32 = arguments.offset6;
    let offset7: i32 = arguments.offset7;
    let stride0_0: i32 = arguments.stride0_0;
    let stride5_0: i32 = arguments.stride5_0;
    let scalar3: f32 = scalars.scalar3;
    let scalar4: f32 = scalars.scalar4;
    let points: i32 = size0;
    let elements: i32 = size1;
    for (var point: i32 = group; point < points; point += groups) {
        let i0: i32 = point;
        var fold0_0: f32 = 0.0f;
        var fold0_0_block: f32 = 0.0f;
        var turns0: i32 = 0;
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v0: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v1: f32 = fold0_0_block + v0;
            fold0_0_block = v1;
            turns0 += 1;
            if (turns0 == 64) {
                let v2: f32 = fold0_0 + fold0_0_block;
                fold0_0 = v2;
                fold0_0_block = 0.0f;
                turns0 = 0;
            }
        }
        let v3: f32 = fold0_0 + fold0_0_block;
        fold0_0 = v3;
        lanes_float32_0[thread] = fold0_0;
        workgroupBarrier();
        if (thread < 64) {
            let v4: f32 = lanes_float32_0[thread];
            let v5: f32 = lanes_float32_0[thread + 64];
            let v6: f32 = v4 + v5;
            let v7: f32 = lanes_float32_0[thread + 128];
            let v8: f32 = v6 + v7;
            let v9: f32 = lanes_float32_0[thread + 192];
            let v10: f32 = v8 + v9;
            lanes_float32_0[thread] = v10;
        }
        workgroupBarrier();
        if (thread < 16) {
            let v11: f32 = lanes_float32_0[thread];
            let v12: f32 = lanes_float32_0[thread + 16];
            let v13: f32 = v11 + v12;
            let v14: f32 = lanes_float32_0[thread + 32];
            let v15: f32 = v13 + v14;
            let v16: f32 = lanes_float32_0[thread + 48];
            let v17: f32 = v15 + v16;
            lanes_float32_0[thread] = v17;
        }
        workgroupBarrier();
        if (thread < 4) {
            let v18: f32 = lanes_float32_0[thread];
            let v19: f32 = lanes_float32_0[thread + 4];
            let v20: f32 = v18 + v19;
            let v21: f32 = lanes_float32_0[thread + 8];
            let v22: f32 = v20 + v21;
            let v23: f32 = lanes_float32_0[thread + 12];
            let v24: f32 = v22 + v23;
            lanes_float32_0[thread] = v24;
        }
        workgroupBarrier();
        if (thread < 1) {
            let v25: f32 = lanes_float32_0[thread];
            let v26: f32 = lanes_float32_0[thread + 1];
            let v27: f32 = v25 + v26;
            let v28: f32 = lanes_float32_0[thread + 2];
            let v29: f32 = v27 + v28;
            let v30: f32 = lanes_float32_0[thread + 3];
            let v31: f32 = v29 + v30;
            lanes_float32_0[thread] = v31;
        }
        workgroupBarrier();
        fold0_0 = lanes_float32_0[0];
        workgroupBarrier();
        let v32: f32 = fold0_0 / scalar3;
        var fold1_0: f32 = 0.0f;
        var fold1_0_block: f32 = 0.0f;
        var turns1: i32 = 0;
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v33: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v34: f32 = v33 - v32;
            let v35: f32 = v34 * v34;
            let v36: f32 = fold1_0_block + v35;
            fold1_0_block = v36;
            turns1 += 1;
            if (turns1 == 64) {
                let v37: f32 = fold1_0 + fold1_0_block;
                fold1_0 = v37;
                fold1_0_block = 0.0f;
                turns1 = 0;
            }
        }
        let v38: f32 = fold1_0 + fold1_0_block;
        fold1_0 = v38;
        lanes_float32_0[thread] = fold1_0;
        workgroupBarrier();
        if (thread < 64) {
            let v39: f32 = lanes_float32_0[thread];
            let v40: f32 = lanes_float32_0[thread + 64];
            let v41: f32 = v39 + v40;
            let v42: f32 = lanes_float32_0[thread + 128];
            let v43: f32 = v41 + v42;
            let v44: f32 = lanes_float32_0[thread + 192];
            let v45: f32 = v43 + v44;
            lanes_float32_0[thread] = v45;
        }
        workgroupBarrier();
        if (thread < 16) {
            let v46: f32 = lanes_float32_0[thread];
            let v47: f32 = lanes_float32_0[thread + 16];
            let v48: f32 = v46 + v47;
            let v49: f32 = lanes_float32_0[thread + 32];
            let v50: f32 = v48 + v49;
            let v51: f32 = lanes_float32_0[thread + 48];
            let v52: f32 = v50 + v51;
            lanes_float32_0[thread] = v52;
        }
        workgroupBarrier();
        if (thread < 4) {
            let v53: f32 = lanes_float32_0[thread];
            let v54: f32 = lanes_float32_0[thread + 4];
            let v55: f32 = v53 + v54;
            let v56: f32 = lanes_float32_0[thread + 8];
            let v57: f32 = v55 + v56;
            let v58: f32 = lanes_float32_0[thread + 12];
            let v59: f32 = v57 + v58;
            lanes_float32_0[thread] = v59;
        }
        workgroupBarrier();
        if (thread < 1) {
            let v60: f32 = lanes_float32_0[thread];
            let v61: f32 = lanes_float32_0[thread + 1];
            let v62: f32 = v60 + v61;
            let v63: f32 = lanes_float32_0[thread + 2];
            let v64: f32 = v62 + v63;
            let v65: f32 = lanes_float32_0[thread + 3];
            let v66: f32 = v64 + v65;
            lanes_float32_0[thread] = v66;
        }
        workgroupBarrier();
        fold1_0 = lanes_float32_0[0];
        workgroupBarrier();
        let v67: f32 = fold1_0 / scalar3;
        let v68: f32 = v67 + scalar4;
        let v69: f32 = sqrt(v68);
        let v70: f32 = 1.0f / v69;
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v71: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v72: f32 = v71 - v32;
            let v73: f32 = v72 * v70;
            let v74: f32 = operand1[offset1 + i1];
            let v75: f32 = v73 * v74;
            let v76: f32 = operand2[offset2 + i1];
            let v77: f32 = v75 + v76;
            operand5[offset5 + i0 * stride5_0 + i1] = v77;
        }
        workgroupBarrier();
        if (thread == 0) {
            operand6[offset6 + i0] = v32;
            operand7[offset7 + i0] = v70;
        }
    }
}
