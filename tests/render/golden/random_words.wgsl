struct Arguments { zero: u32, size0: i32, offset0: i32, offset2: i32, offset3: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar1: i32, scalar1_high: i32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read_write> operand2: array<i32>;
@group(0) @binding(3) var<storage, read_write> operand3: array<f32>;

@compute @workgroup_size(256)
fn map_92508de39e72(
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
    let offset3: i32 = arguments.offset3;
    let scalar1: i32 = scalars.scalar1;
    let points: i32 = size0;
    for (var point: i32 = group * threads + thread; point < points; point += groups * threads) {
        let i0: i32 = point;
        let v0: u32 = u32(scalar1);
        let v1: u32 = v0 + 2654435769u;
        let v2: i32 = offset0 + i0;
        let v3: u32 = u32(v2);
        let v4: u32 = v3 >> (16u & 31u);
        let v5: u32 = v4 * 53841u;
        let v6: u32 = v4 * 8019u;
        let v7: u32 = v3 & 65535u;
        let v8: u32 = v7 * 8019u;
        let v9: u32 = v8 >> (16u & 31u);
        let v10: u32 = v6 + v9;
        let v11: u32 = v10 >> (16u & 31u);
        let v12: u32 = v5 + v11;
        let v13: u32 = v7 * 53841u;
        let v14: u32 = v10 & 65535u;
        let v15: u32 = v13 + v14;
        let v16: u32 = v15 >> (16u & 31u);
        let v17: u32 = v12 + v16;
        let v18: u32 = v3 ^ v0;
        let v19: u32 = v17 ^ v18;
        let v20: u32 = v19 ^ v0;
        let v21: u32 = v20 >> (16u & 31u);
        let v22: u32 = v21 * 53841u;
        let v23: u32 = v21 * 8019u;
        let v24: u32 = v20 & 65535u;
        let v25: u32 = v24 * 8019u;
        let v26: u32 = v25 >> (16u & 31u);
        let v27: u32 = v23 + v26;
        let v28: u32 = v27 >> (16u & 31u);
        let v29: u32 = v22 + v28;
        let v30: u32 = v24 * 53841u;
        let v31: u32 = v27 & 65535u;
        let v32: u32 = v30 + v31;
        let v33: u32 = v32 >> (16u & 31u);
        let v34: u32 = v29 + v33;
        let v35: u32 = v3 * 3528531795u;
        let v36: u32 = v34 ^ v35;
        let v37: u32 = v36 ^ v1;
        let v38: u32 = v20 * 3528531795u;
        let v39: u32 = v37 ^ v38;
        let v40: i32 = bitcast<i32>(v39);
        let v41: u32 = v37 >> (8u & 31u);
        let v42: f32 = f32(v41);
        let v43: f32 = v42 * 5.9604645e-08f;
        operand2[offset2 + i0] = v40;
        operand3[offset3 + i0] = v43;
    }
}
