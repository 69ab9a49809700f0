struct Arguments { zero: u32, size0: i32, size1: i32, offset0: i32, offset1: i32, offset2: i32, offset3: i32, stride1_1: i32, line: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar4: i32, scalar5: i32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read> operand0: array<i32>;
@group(0) @binding(3) var<storage, read> operand1: array<f32>;
@group(0) @binding(4) var<storage, read_write> operand2: array<f32>;
@group(0) @binding(5) var<storage, read> operand3: array<i32>;
struct Failure { mark: atomic<i32>, index: i32 }
@group(0) @binding(6) var<storage, read_write> failure: Failure;

fn fail(line: i32, index: i32) {
    loop {
        let tried = atomicCompareExchangeWeak(&failure.mark, 0, line + 1);
        if (tried.exchanged) { failure.index = index; }
        if (tried.exchanged || tried.old_value != 0) { break; }
    }
}

@compute @workgroup_size(256)
fn scatter_e7338ddb8456(
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
    let offset3: i32 = arguments.offset3;
    let stride1_1: i32 = arguments.stride1_1;
    let line: i32 = arguments.line;
    let scalar4: i32 = scalars.scalar4;
    let scalar5: i32 = scalars.scalar5;
    let rows: i32 = size0;
    let walked: i32 = size1;
    let points: i32 = rows * walked;
    for (var point: i32 = group * threads + thread; point < points; point += groups * threads) {
        let row: i32 = point % rows;
        let number: i32 = point / rows;
        let i0: i32 = row;
        var own: i32 = -1;
        let own_point: i32 = operand3[offset3 + number];
        {
            let i1: i32 = own_point;
            let v0: i32 = operand0[offset0 + i1];
            let v1: bool = v0 >= 0i && v0 < scalar4;
            if (!v1) { fail(line, v0); }
            let v2: i32 = v0 * scalar5;
            let v3: i32 = v2;
            if (v1) { own = v3; }
        }
        if (number > 0) {
            var before: i32 = -1;
            let before_point: i32 = operand3[offset3 + number - 1];
            {
                let i1: i32 = before_point;
                let v4: i32 = operand0[offset0 + i1];
                let v5: bool = v4 >= 0i && v4 < scalar4;
                if (!v5) { fail(line, v4); }
                let v6: i32 = v4 * scalar5;
                let v7: i32 = v6;
                if (v5) { before = v7; }
            }
            if (before == own) { own = -1; }
        }
        if (own >= 0) {
            var fold: f32 = operand2[offset2 + i0 + own];
            for (var turn: i32 = number; turn < walked; turn += 1) {
                let next_point: i32 = operand3[offset3 + turn];
                {
                    let i1: i32 = next_point;
                    let v8: i32 = operand0[offset0 + i1];
                    let v9: bool = v8 >= 0i && v8 < scalar4;
                    if (!v9) { fail(line, v8); }
                    let v10: i32 = v8 * scalar5;
                    let v11: i32 = v10;
                    if (!(v9) || v11 != own) { break; }
                    let v12: f32 = operand1[offset1 + i0 + i1 * stride1_1];
                    let v13: f32 = fold + v12;
                    fold = v13;
                }
            }
            operand2[offset2 + i0 + own] = fold;
        }
    }
}
