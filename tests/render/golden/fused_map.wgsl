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
        let v4: f32 = select(clamp(v3, (-9.8f), 9.8f), v3, (bitcast<u32>(v3) & 0x7fffffffu) > 0x7f800000u);
        let v5: f32 = v4 * v4;
        let v6: f32 = fma((-2.6465991e-06f), v5, (-0.0012350613f));
        let v7: f32 = fma(v6, v5, (-0.08333328f));
        let v8: f32 = fma(v5, v7, 0.0f);
        let v9: f32 = fma(2.7323e-06f, v5, 0.0013948181f);
        let v10: f32 = fma(v9, v5, 0.114820436f);
        let v11: f32 = fma(v10, v5, 1.0f);
        let v12: f32 = v8 / v11;
        let v13: f32 = fma(v4, v12, v4);
        let v14: f32 = 0.25f * v13;
        let v15: f32 = fma(v14, v13, 1.0f);
        let v16: f32 = v13 / v15;
        let v17: bool = v0 > 0.0f;
        operand3[offset3 + i0 * stride3_0 + i1] = v16;
        operand4[offset4 + i0 * stride4_0 + i1] = u32(v17);
    }
}
