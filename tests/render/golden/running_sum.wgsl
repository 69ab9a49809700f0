struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, offset0: i32, offset1: i32, stride0_0: i32, stride0_2: i32, stride1_0: i32, stride1_2: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read_write> operand1: array<f32>;

@compute @workgroup_size(256)
fn scan_2a148969f646(
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
    let stride0_0: i32 = arguments.stride0_0;
    let stride0_2: i32 = arguments.stride0_2;
    let stride1_0: i32 = arguments.stride1_0;
    let stride1_2: i32 = arguments.stride1_2;
    let points: i32 = size0 * size1;
    for (var point: i32 = group * threads + thread; point < points; point += groups * threads) {
        let i1: i32 = point % size1;
        let i0: i32 = point / size1;
        var fold0_0: f32 = (-0.0f);
        for (var i2: i32 = 0; i2 < size2; i2 += 1) {
            let v0: f32 = operand0[offset0 + i0 * stride0_0 + i1 + i2 * stride0_2];
            let v1: f32 = fold0_0 + v0;
            fold0_0 = v1;
            operand1[offset1 + i0 * stride1_0 + i1 + i2 * stride1_2] = fold0_0;
        }
    }
}
