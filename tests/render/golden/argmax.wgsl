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
        for (var reach: i32 = threads / 2; reach > 0; reach = reach / 2) {
            if (thread < reach) {
                let v8: f32 = lanes_float32_0[thread];
                let v9: i32 = lanes_int64_0[thread];
                let v10: f32 = lanes_float32_0[thread + reach];
                let v11: i32 = lanes_int64_0[thread + reach];
                let v12: bool = v8 > v10;
                let v13: bool = v8 == v10;
                let v14: bool = v9 < v11;
                let v15: bool = v13 & v14;
                let v16: bool = v12 | v15;
                let v17: f32 = select(v10, v8, v16);
                let v18: i32 = select(v11, v9, v16);
                lanes_float32_0[thread] = v17;
                lanes_int64_0[thread] = v18;
            }
            workgroupBarrier();
        }
        fold0_0 = lanes_float32_0[0];
        fold0_1 = lanes_int64_0[0];
        workgroupBarrier();
        if (thread == 0) {
            operand1[offset1 + i0] = fold0_0;
            operand2[offset2 + i0] = fold0_1;
        }
    }
}
