struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, offset0: i32, offset1: i32, offset2: i32, stride0_0: i32, stride0_1: i32, stride1_0: i32, stride1_1: i32, stride2_0: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar3: i32, scalar4: i32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read> operand0: array<i32>;
@group(0) @binding(3) var<storage, read> operand1: array<i32>;
@group(0) @binding(4) var<storage, read_write> operand2: array<i32>;

@compute @workgroup_size(256)
fn merge_16d0be614c91(
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
    let stride0_1: i32 = arguments.stride0_1;
    let stride1_0: i32 = arguments.stride1_0;
    let stride1_1: i32 = arguments.stride1_1;
    let stride2_0: i32 = arguments.stride2_0;
    let scalar3: i32 = scalars.scalar3;
    let scalar4: i32 = scalars.scalar4;
    let points: i32 = size0 * size1 * size2;
    for (var point: i32 = group * threads + thread; point < points; point += groups * threads) {
        let i2: i32 = point % size2;
        let i1: i32 = point / size2 % size1;
        let i0: i32 = point / size2 / size1;
        let length: i32 = scalar3;
        let first: i32 = i2 / (2 * length) * (2 * length);
        let middle: i32 = min(first + length, size2);
        let v0: i32 = operand0[offset0 + i0 * stride0_0 + i1 * stride0_1 + i2];
        let v1: i32 = operand1[offset1 + i0 * stride1_0 + i1 * stride1_1 + i2];
        let v2: bool = i2 >= middle;
        var low: i32 = middle;
        var high: i32 = min(middle + length, size2);
        if (v2) {
            low = first;
            high = middle;
        }
        while (low < high) {
            let half: i32 = low + (high - low) / 2;
            {
                let i2: i32 = half;
                let v3: i32 = operand0[offset0 + i0 * stride0_0 + i1 * stride0_1 + i2];
                if (v3 < v0 || (v3 == v0 && v2)) {
                    low = half + 1;
                }
                else {
                    high = half;
                }
            }
        }
        let rank: i32 = i2 + low - middle;
        {
            let i2: i32 = rank;
            if (rank < scalar4) { operand2[offset2 + i0 * stride2_0 + i1 + i2] = v1; }
        }
    }
}
