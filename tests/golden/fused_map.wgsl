struct Arguments { zero: u32, size0: i32, size1: i32, offset0: i32, offset1: i32, offset3: i32, offset4: i32, stride0_1: i32, stride3_0: i32, stride4_0: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar2: f32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read> operand1: array<f32>;
@group(0) @binding(4) var<storage, read_write> operand3: array<f32>;
@group(0) @binding(5) var<storage, read_write> operand4: array<u32>;

@compute @workgroup_size(256)
fn map_b4d1cf74b0b1(
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
    let offset3: i32 = arguments.offset3;
    let offset4: i32 = arguments.offset4;
    let stride0_1: i32 = arguments.stride0_1;
    let stride3_0: i32 = arguments.stride3_0;
    let stride4_0: i32 = arguments.stride4_0;
    let scalar2: f32 = scalars.scalar2;
    let points: i32 = size0 * size1;
    for (var point: i32 = group * threads + thread; point < points; point += groups * threads) {
        let i1: i32 = point % size1;
        let i0: i32 = point / size1;
        let v0: f32 = operand0[offset0 + i0 + i1 * stride0_1];
        let v1: f32 = operand1[offset1 + i1];
        let v2: f32 = v0 * v1;
        let v3: f32 = v2 + scalar2;
        let v4: f32 = abs(v3);
        let v5: bool = v4 < 0.625f;
        let v6: f32 = v4 * v4;
        let v7: f32 = (-0.0057193665f) * v6 + 0.02065334f;
        let v8: f32 = v7 * v6 + (-0.05374462f);
        let v9: f32 = v8 * v6 + 0.1333151f;
        let v10: f32 = v9 * v6 + (-0.33333284f);
        let v11: f32 = v6 * v10;
        let v12: f32 = v4 * v11 + v4;
        let v13: bool = v4 > 10.0f;
        let v14: f32 = select(v4, 10.0f, v13);
        let v15: f32 = 2.0f * v14;
        let v16: f32 = v15 * 1.442695f;
        let v17: f32 = round(v16);
        let v18: f32 = v17 * (-0.69314575f) + v15;
        let v19: f32 = v17 * (-1.4286068e-06f) + v18;
        let v20: f32 = v19 * v19;
        let v21: f32 = 0.0001991374f * v19 + 0.0013940377f;
        let v22: f32 = v21 * v19 + 0.008333274f;
        let v23: f32 = v22 * v19 + 0.041666366f;
        let v24: f32 = v23 * v19 + 0.16666667f;
        let v25: f32 = v24 * v19 + 0.5f;
        let v26: f32 = v20 * v25 + v19;
        let v27: f32 = 1.0f + v26;
        let v28: f32 = v17 + 1.2582912e+07f;
        let v29: u32 = bitcast<u32>(v28);
        let v30: u32 = v29 + 127u;
        let v31: u32 = v30 << (u32(23u) & 31u);
        let v32: f32 = bitcast<f32>(v31);
        let v33: f32 = v27 * v32;
        let v34: f32 = v33 + 1.0f;
        let v35: f32 = 2.0f / v34;
        let v36: f32 = 1.0f - v35;
        let v37: f32 = select(v36, v12, v5);
        let v38: u32 = bitcast<u32>(v37);
        let v39: u32 = bitcast<u32>(v3);
        let v40: u32 = v39 & 2147483648u;
        let v41: u32 = v38 | v40;
        let v42: f32 = bitcast<f32>(v41);
        let v43: bool = v0 > 0.0f;
        operand3[offset3 + i0 * stride3_0 + i1] = v42;
        operand4[offset4 + i0 * stride4_0 + i1] = u32(v43);
    }
}
