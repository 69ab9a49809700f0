struct Arguments { zero: u32, size0: i32, offset0: i32, offset2: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar1: i32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read_write> operand2: array<f32>;

@compute @workgroup_size(256)
fn map_f132c0c63b00(
    @builtin(local_invocation_index) local: u32,
    @builtin(workgroup_id) place: vec3<u32>,
    @builtin(num_workgroups) extent: vec3<u32>) {
    let thread: i32 = i32(local);
    let threads: i32 = 256;
    let group: i32 = i32(place.x + place.y * extent.x);
    let groups: i32 = i32(extent.x * extent.y);
    let size0: i32 = arguments.size0;
    let offset0: i32 = arguments.offset0;
    let offset2: i32 = arguments.offset2;
    let scalar1: i32 = scalars.scalar1;
    let points: i32 = size0;
    for (var point: i32 = group * threads + thread; point < points; point += groups * threads) {
        let i0: i32 = point;
        let v0: bool = i0 > 0i;
        let v1: bool = i0 < scalar1;
        var v2: f32 = 0.0f;
        if (v0) { v2 = operand0[offset0 + i0 + (-1i)]; }
        var v3: f32 = 0.0f;
        if (v1) { v3 = operand0[offset0 + i0 + 1i]; }
        let v4: f32 = v2 - v3;
        operand2[offset2 + i0] = v4;
    }
}
