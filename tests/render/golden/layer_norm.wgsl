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
        for (var reach: i32 = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                let v4: f32 = lanes_float32_0[thread];
                let v5: f32 = lanes_float32_0[thread + reach];
                let v6: f32 = v4 + v5;
                lanes_float32_0[thread] = v6;
            }
            workgroupBarrier();
        }
        fold0_0 = lanes_float32_0[0];
        workgroupBarrier();
        let v7: f32 = fold0_0 / scalar3;
        var fold1_0: f32 = 0.0f;
        var fold1_0_block: f32 = 0.0f;
        var turns1: i32 = 0;
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v8: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v9: f32 = v8 - v7;
            let v10: f32 = v9 * v9;
            let v11: f32 = fold1_0_block + v10;
            fold1_0_block = v11;
            turns1 += 1;
            if (turns1 == 64) {
                let v12: f32 = fold1_0 + fold1_0_block;
                fold1_0 = v12;
                fold1_0_block = 0.0f;
                turns1 = 0;
            }
        }
        let v13: f32 = fold1_0 + fold1_0_block;
        fold1_0 = v13;
        lanes_float32_0[thread] = fold1_0;
        workgroupBarrier();
        for (var reach: i32 = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                let v14: f32 = lanes_float32_0[thread];
                let v15: f32 = lanes_float32_0[thread + reach];
                let v16: f32 = v14 + v15;
                lanes_float32_0[thread] = v16;
            }
            workgroupBarrier();
        }
        fold1_0 = lanes_float32_0[0];
        workgroupBarrier();
        let v17: f32 = fold1_0 / scalar3;
        let v18: f32 = v17 + scalar4;
        let v19: f32 = sqrt(v18);
        let v20: f32 = 1.0f / v19;
        for (var element: i32 = thread; element < elements; element += threads) {
            let i1: i32 = element;
            let v21: f32 = operand0[offset0 + i0 * stride0_0 + i1];
            let v22: f32 = v21 - v7;
            let v23: f32 = v22 * v20;
            let v24: f32 = operand1[offset1 + i1];
            let v25: f32 = v23 * v24;
            let v26: f32 = operand2[offset2 + i1];
            let v27: f32 = v25 + v26;
            operand5[offset5 + i0 * stride5_0 + i1] = v27;
        }
        workgroupBarrier();
        if (thread == 0) {
            operand6[offset6 + i0] = v7;
            operand7[offset7 + i0] = v20;
        }
    }
}
