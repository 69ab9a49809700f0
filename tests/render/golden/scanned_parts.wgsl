struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, offset0: i32, offset1: i32, offset3: i32, stride0_0: i32, stride1_0: i32, stride3_1: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar2: i32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read_write> operand1: array<f32>;
@group(0) @binding(4) var<storage, read> operand3: array<f32>;

@compute @workgroup_size(256)
fn scan_01367d7184f0(
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
    let offset3: i32 = arguments.offset3;
    let stride0_0: i32 = arguments.stride0_0;
    let stride1_0: i32 = arguments.stride1_0;
    let stride3_1: i32 = arguments.stride3_1;
    let scalar2: i32 = scalars.scalar2;
    let points: i32 = size0 * size1;
    for (var point: i32 = group * threads + thread; point < points; point += groups * threads) {
        let i0: i32 = point % size0;
        let i1: i32 = point / size0;
        let v0: bool = i1 > 0i;
        let v1: i32 = 0i - scalar2;
        var v2: f32 = 0.0f;
        if (v0) { v2 = operand3[offset3 + i0 + i1 * stride3_1 + v1]; }
        let v3: f32 = select((-0.0f), v2, v0);
        var fold0_0: f32 = v3;
        let length: i32 = (size2 + size1 * 64 - 1) / (size1 * 64) * 64;
        let start: i32 = min(i1 * length, size2);
        let stop: i32 = min(start + length, size2);
        for (var i2: i32 = start; i2 < stop; i2 += 1) {
            let v4: f32 = operand0[offset0 + i0 * stride0_0 + i2];
            let v5: f32 = fold0_0 + v4;
            fold0_0 = v5;
            operand1[offset1 + i0 * stride1_0 + i2] = fold0_0;
        }
    }
}
