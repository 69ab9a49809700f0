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
    for (var first: i32 = group * (threads * 4) + thread; first < points; first += groups * (threads * 4)) {
        if (first + threads * 3 < points) {
            var value0_0: f32 = 0.0f;
            var value1_0: bool = false;
            {
                let point_there: i32 = first + threads * 0;
                let i1: i32 = point_there % size1;
                let i0: i32 = point_there / size1;
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
                value0_0 = v16;
                value1_0 = v17;
            }
            var value0_1: f32 = 0.0f;
            var value1_1: bool = false;
            {
                let point_there: i32 = first + threads * 1;
                let i1: i32 = point_there % size1;
                let i0: i32 = point_there / size1;
                let v18: f32 = operand0[offset0 + i0 + i1 * stride0_1];
                let v19: f32 = operand1[offset1 + i1];
                let v20: f32 = v18 * v19;
                let v21: f32 = v20 + scalar2;
                let v22: f32 = select(clamp(v21, (-9.8f), 9.8f), v21, (bitcast<u32>(v21) & 0x7fffffffu) > 0x7f800000u);
                let v23: f32 = v22 * v22;
                let v24: f32 = fma((-2.6465991e-06f), v23, (-0.0012350613f));
                let v25: f32 = fma(v24, v23, (-0.08333328f));
                let v26: f32 = fma(v23, v25, 0.0f);
                let v27: f32 = fma(2.7323e-06f, v23, 0.0013948181f);
                let v28: f32 = fma(v27, v23, 0.114820436f);
                let v29: f32 = fma(v28, v23, 1.0f);
                let v30: f32 = v26 / v29;
                let v31: f32 = fma(v22, v30, v22);
                let v32: f32 = 0.25f * v31;
                let v33: f32 = fma(v32, v31, 1.0f);
                let v34: f32 = v31 / v33;
                let v35: bool = v18 > 0.0f;
                value0_1 = v34;
                value1_1 = v35;
            }
            var value0_2: f32 = 0.0f;
            var value1_2: bool = false;
            {
                let point_there: i32 = first + threads * 2;
                let i1: i32 = point_there % size1;
                let i0: i32 = point_there / size1;
                let v36: f32 = operand0[offset0 + i0 + i1 * stride0_1];
                let v37: f32 = operand1[offset1 + i1];
                let v38: f32 = v36 * v37;
                let v39: f32 = v38 + scalar2;
                let v40: f32 = select(clamp(v39, (-9.8f), 9.8f), v39, (bitcast<u32>(v39) & 0x7fffffffu) > 0x7f800000u);
                let v41: f32 = v40 * v40;
                let v42: f32 = fma((-2.6465991e-06f), v41, (-0.0012350613f));
                let v43: f32 = fma(v42, v41, (-0.08333328f));
                let v44: f32 = fma(v41, v43, 0.0f);
                let v45: f32 = fma(2.7323e-06f, v41, 0.0013948181f);
                let v46: f32 = fma(v45, v41, 0.114820436f);
                let v47: f32 = fma(v46, v41, 1.0f);
                let v48: f32 = v44 / v47;
                let v49: f32 = fma(v40, v48, v40);
                let v50: f32 = 0.25f * v49;
                let v51: f32 = fma(v50, v49, 1.0f);
                let v52: f32 = v49 / v51;
                let v53: bool = v36 > 0.0f;
                value0_2 = v52;
                value1_2 = v53;
            }
            var value0_3: f32 = 0.0f;
            var value1_3: bool = false;
            {
                let point_there: i32 = first + threads * 3;
                let i1: i32 = point_there % size1;
                let i0: i32 = point_there / size1;
                let v54: f32 = operand0[offset0 + i0 + i1 * stride0_1];
                let v55: f32 = operand1[offset1 + i1];
                let v56: f32 = v54 * v55;
                let v57: f32 = v56 + scalar2;
                let v58: f32 = select(clamp(v57, (-9.8f), 9.8f), v57, (bitcast<u32>(v57) & 0x7fffffffu) > 0x7f800000u);
                let v59: f32 = v58 * v58;
                let v60: f32 = fma((-2.6465991e-06f), v59, (-0.0012350613f));
                let v61: f32 = fma(v60, v59, (-0.08333328f));
                let v62: f32 = fma(v59, v61, 0.0f);
                let v63: f32 = fma(2.7323e-06f, v59, 0.0013948181f);
                let v64: f32 = fma(v63, v59, 0.114820436f);
                let v65: f32 = fma(v64, v59, 1.0f);
                let v66: f32 = v62 / v65;
                let v67: f32 = fma(v58, v66, v58);
                let v68: f32 = 0.25f * v67;
                let v69: f32 = fma(v68, v67, 1.0f);
                let v70: f32 = v67 / v69;
                let v71: bool = v54 > 0.0f;
                value0_3 = v70;
                value1_3 = v71;
            }
            {
                let point_there: i32 = first + threads * 0;
                let i1: i32 = point_there % size1;
                let i0: i32 = point_there / size1;
                operand3[offset3 + i0 * stride3_0 + i1] = value0_0;
                operand4[offset4 + i0 * stride4_0 + i1] = u32(value1_0);
            }
            {
                let point_there: i32 = first + threads * 1;
                let i1: i32 = point_there % size1;
                let i0: i32 = point_there / size1;
                operand3[offset3 + i0 * stride3_0 + i1] = value0_1;
                operand4[offset4 + i0 * stride4_0 + i1] = u32(value1_1);
            }
            {
                let point_there: i32 = first + threads * 2;
                let i1: i32 = point_there % size1;
                let i0: i32 = point_there / size1;
                operand3[offset3 + i0 * stride3_0 + i1] = value0_2;
                operand4[offset4 + i0 * stride4_0 + i1] = u32(value1_2);
            }
            {
                let point_there: i32 = first + threads * 3;
                let i1: i32 = point_there % size1;
                let i0: i32 = point_there / size1;
                operand3[offset3 + i0 * stride3_0 + i1] = value0_3;
                operand4[offset4 + i0 * stride4_0 + i1] = u32(value1_3);
            }
        }
        else {
            for (var point: i32 = first; point < points; point += threads) {
                let i1: i32 = point % size1;
                let i0: i32 = point / size1;
                let v72: f32 = operand0[offset0 + i0 + i1 * stride0_1];
                let v73: f32 = operand1[offset1 + i1];
                let v74: f32 = v72 * v73;
                let v75: f32 = v74 + scalar2;
                let v76: f32 = select(clamp(v75, (-9.8f), 9.8f), v75, (bitcast<u32>(v75) & 0x7fffffffu) > 0x7f800000u);
                let v77: f32 = v76 * v76;
                let v78: f32 = fma((-2.6465991e-06f), v77, (-0.0012350613f));
                let v79: f32 = fma(v78, v77, (-0.08333328f));
                let v80: f32 = fma(v77, v79, 0.0f);
                let v81: f32 = fma(2.7323e-06f, v77, 0.0013948181f);
                let v82: f32 = fma(v81, v77, 0.114820436f);
                let v83: f32 = fma(v82, v77, 1.0f);
                let v84: f32 = v80 / v83;
                let v85: f32 = fma(v76, v84, v76);
                let v86: f32 = 0.25f * v85;
                let v87: f32 = fma(v86, v85, 1.0f);
                let v88: f32 = v85 / v87;
                let v89: bool = v72 > 0.0f;
                operand3[offset3 + i0 * stride3_0 + i1] = v88;
                operand4[offset4 + i0 * stride4_0 + i1] = u32(v89);
            }
        }
    }
}
