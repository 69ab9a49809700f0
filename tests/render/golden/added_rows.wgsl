struct Arguments { zero: u32, size0: i32, size1: i32, offset0: i32, offset1: i32, offset2: i32, stride1_1: i32, line: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar3: i32, scalar4: i32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read> operand0: array<i32>;
@group(0) @binding(3) var<storage, read> operand1: array<f32>;
@group(0) @binding(4) var<storage, read_write> operand2: array<f32>;
struct Failure { mark: atomic<i32>, index: i32 }
@group(0) @binding(5) var<storage, read_write> failure: Failure;

fn fail(line: i32, index: i32) {
    loop {
        let tried = atomicCompareExchangeWeak(&failure.mark, 0, line + 1);
        if (tried.exchanged) { failure.index = index; }
        if (tried.exchanged || tried.old_value != 0) { break; }
    }
}

@compute @workgroup_size(256)
fn scatter_3cd3b881a5cf(
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
    let stride1_1: i32 = arguments.stride1_1;
    let line: i32 = arguments.line;
    let scalar3: i32 = scalars.scalar3;
    let scalar4: i32 = scalars.scalar4;
    let points: i32 = size0;
    for (var point: i32 = group * threads + thread; point < points; point += groups * threads) {
        let i0: i32 = point;
        for (var i1: i32 = 0; i1 < size1; i1 += 1) {
            let v0: i32 = operand0[offset0 + i1];
            let v1: bool = v0 >= 0i && v0 < scalar3;
            if (!v1) { fail(line, v0); }
            let v2: i32 = v0 * scalar4;
            let v3: f32 = operand1[offset1 + i0 + i1 * stride1_1];
            var v4: f32 = 0.0f;
            if (v1) { v4 = operand2[offset2 + i0 + v2]; }
            let v5: f32 = v4 + v3;
            if (v1) { operand2[offset2 + i0 + v2] = v5; }
        }
    }
}
