struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, offset0: i32, offset1: i32, stride0_2: i32, stride1_1: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read_write> operand1: array<f32>;
var<workgroup> lanes_float32_0: array<f32, 256>;

@compute @workgroup_size(256)
fn column_607ccfada3bc(
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
    let stride0_2: i32 = arguments.stride0_2;
    let stride1_1: i32 = arguments.stride1_1;
    let points: i32 = size0 * size1;
    let column: i32 = thread % 8;
    for (var point: i32 = group * 8; point < points; point += groups * 8) {
        let within: bool = point + column < points;
        let own: i32 = min(point + column, points - 1);
        let i0: i32 = own % size0;
        let i1: i32 = own / size0;
        let length: i32 = (size2 + size1 * 64 - 1) / (size1 * 64) * 64;
        let start: i32 = min(i1 * length, size2);
        let stop: i32 = min(start + length, size2);
        let elements: i32 = (stop - start);
        var fold0_0: f32 = 0.0f;
        var fold0_0_block: f32 = 0.0f;
        var turns0: i32 = 0;
        for (var first: i32 = thread / 8; first < elements; first += threads / 8 * 4) {
            if (first + threads / 8 * 3 < elements) {
                var value0_0: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads / 8 * 0;
                    let i2: i32 = start + point_there;
                    let v0: f32 = operand0[offset0 + i0 + i2 * stride0_2];
                    value0_0 = v0;
                }
                var value0_1: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads / 8 * 1;
                    let i2: i32 = start + point_there;
                    let v1: f32 = operand0[offset0 + i0 + i2 * stride0_2];
                    value0_1 = v1;
                }
                var value0_2: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads / 8 * 2;
                    let i2: i32 = start + point_there;
                    let v2: f32 = operand0[offset0 + i0 + i2 * stride0_2];
                    value0_2 = v2;
                }
                var value0_3: f32 = 0.0f;
                {
                    let point_there: i32 = first + threads / 8 * 3;
                    let i2: i32 = start + point_there;
                    let v3: f32 = operand0[offset0 + i0 + i2 * stride0_2];
                    value0_3 = v3;
                }
                let v4: f32 = fold0_0_block + value0_0;
                fold0_0_block = v4;
                let v5: f32 = fold0_0_block + value0_1;
                fold0_0_block = v5;
                let v6: f32 = fold0_0_block + value0_2;
                fold0_0_block = v6;
                let v7: f32 = fold0_0_block + value0_3;
                fold0_0_block = v7;
                turns0 += 4;
                if (turns0 >= 64) {
                    let v8: f32 = fold0_0 + fold0_0_block;
                    fold0_0 = v8;
                    fold0_0_block = 0.0f;
                    turns0 = 0;
                }
            }
            else {
                for (var element: i32 = first; element < elements; element += threads / 8) {
                    let i2: i32 = start + element;
                    let v9: f32 = operand0[offset0 + i0 + i2 * stride0_2];
                    let v10: f32 = fold0_0_block + v9;
                    fold0_0_block = v10;
                    turns0 += 1;
                    if (turns0 == 64) {
                        let v11: f32 = fold0_0 + fold0_0_block;
                        fold0_0 = v11;
                        fold0_0_block = 0.0f;
                        turns0 = 0;
                    }
                }
            }
        }
        let v12: f32 = fold0_0 + fold0_0_block;
        fold0_0 = v12;
        lanes_float32_0[thread] = fold0_0;
        workgroupBarrier();
        if (thread < 64) {
            let v13: f32 = lanes_float32_0[thread];
            let v14: f32 = lanes_float32_0[thread + 64];
            let v15: f32 = v13 + v14;
            let v16: f32 = lanes_float32_0[thread + 128];
            let v17: f32 = v15 + v16;
            let v18: f32 = lanes_float32_0[thread + 192];
            let v19: f32 = v17 + v18;
            lanes_float32_0[thread] = v19;
        }
        workgroupBarrier();
        if (thread < 16) {
            let v20: f32 = lanes_float32_0[thread];
            let v21: f32 = lanes_float32_0[thread + 16];
            let v22: f32 = v20 + v21;
            let v23: f32 = lanes_float32_0[thread + 32];
            let v24: f32 = v22 + v23;
            let v25: f32 = lanes_float32_0[thread + 48];
            let v26: f32 = v24 + v25;
            lanes_float32_0[thread] = v26;
        }
        workgroupBarrier();
        if (thread < 8) {
            let v27: f32 = lanes_float32_0[thread];
            let v28: f32 = lanes_float32_0[thread + 8];
            let v29: f32 = v27 + v28;
            lanes_float32_0[thread] = v29;
        }
        workgroupBarrier();
        fold0_0 = lanes_float32_0[column];
        workgroupBarrier();
        if (thread < 8) {
            if (within) { operand1[offset1 + i0 + i1 * stride1_1] = fold0_0; }
        }
    }
}
