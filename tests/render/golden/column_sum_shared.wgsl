struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, offset0: i32, offset1: i32, stride0_1: i32, stride0_2: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read_write> operand1: array<f32>;
var<workgroup> lanes_float32_0: array<f32, 256>;

@compute @workgroup_size(256)
fn column_28c1690daba6(
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
    let stride0_1: i32 = arguments.stride0_1;
    let stride0_2: i32 = arguments.stride0_2;
    let points: i32 = size0;
    let column: i32 = thread % 8;
    let elements: i32 = size1 * size2;
    for (var point: i32 = group * 8; point < points; point += groups * 8) {
        let within: bool = point + column < points;
        let own: i32 = min(point + column, points - 1);
        let i0: i32 = own;
        var fold0_0: f32 = 0.0f;
        var fold0_0_block: f32 = 0.0f;
        var turns0: i32 = 0;
        for (var element: i32 = thread / 8; element < elements; element += threads / 8) {
            let i2: i32 = element % size2;
            let i1: i32 = element / size2;
            let v0: f32 = operand0[offset0 + i0 + i1 * stride0_1 + i2 * stride0_2];
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
        if (thread < 8) {
            let v18: f32 = lanes_float32_0[thread];
            let v19: f32 = lanes_float32_0[thread + 8];
            let v20: f32 = v18 + v19;
            lanes_float32_0[thread] = v20;
        }
        workgroupBarrier();
        fold0_0 = lanes_float32_0[column];
        workgroupBarrier();
        if (thread < 8) {
            if (within) { operand1[offset1 + i0] = fold0_0; }
        }
    }
}
