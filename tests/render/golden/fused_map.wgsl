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
        let v4: bool = v3 < (-9.8f);
        let v5: bool = v3 > 9.8f;
        let v6: f32 = select(v3, 9.8f, v5);
        let v7: f32 = select(v6, (-9.8f), v4);
        let v8: f32 = v7 * v7;
        let v9: f32 = fma((-2.6465991e-06f), v8, (-0.0012350613f));
        let v10: f32 = fma(v9, v8, (-0.08333328f));
        let v11: f32 = fma(v8, v10, 0.0f);
        let v12: f32 = fma(2.7323e-06f, v8, 0.0013948181f);
        let v13: f32 = fma(v12, v8, 0.114820436f);
        let v14: f32 = fma(v13, v8, 1.0f);
        let v15: f32 = v11 / v14;
        let v16: f32 = fma(v7, v15, v7);
        let v17: f32 = 0.25f * v16;
        let v18: f32 = fma(v17, v16, 1.0f);
        let v19: f32 = v16 / v18;
        let v20: bool = v0 > 0.0f;
        operand3[offset3 + i0 * stride3_0 + i1] = v19;
        operand4[offset4 + i0 * stride4_0 + i1] = u32(v20);
    }
}
