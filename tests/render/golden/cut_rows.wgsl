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
        for (var reach: i32 = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                let v16: f32 = lanes_float32_0[thread];
                let v17: f32 = lanes_float32_0[thread + reach];
                let v18: f32 = v16 + v17;
                lanes_float32_0[thread] = v18;
                let v19: f32 = lanes_float32_1[thread];
                let v20: f32 = lanes_float32_1[thread + reach];
                let v21: bool = v19 > v20;
                let v22: bool = (bitcast<u32>(v19) & 0x7fffffffu) > 0x7f800000u;
                let v23: bool = v21 | v22;
                let v24: f32 = select(v20, v19, v23);
                lanes_float32_1[thread] = v24;
            }
            workgroupBarrier();
        }
        fold0_0 = lanes_float32_0[0];
        fold1_0 = lanes_float32_1[0];
        workgroupBarrier();
        if (thread == 0) {
            operand1[offset1 + i0 + i1 * stride1_1] = fold0_0;
            operand2[offset2 + i0 + i1 * stride2_1] = fold1_0;
        }
    }
}
