struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, size3: i32, size4: i32, offset0: i32, offset1: i32, offset2: i32, offset3: i32, offset4: i32, stride0_0: i32, stride0_1: i32, stride0_2: i32, stride0_3: i32, stride1_0: i32, stride1_1: i32, stride1_2: i32, stride1_3: i32, stride2_0: i32, stride2_1: i32, stride2_2: i32, stride2_3: i32, stride3_0: i32, stride3_1: i32, stride3_2: i32, stride3_3: i32, stride4_0: i32, stride4_1: i32, stride4_2: i32, stride4_3: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read> operand1: array<f32>;
@group(0) @binding(4) var<storage, read_write> operand2: array<f32>;
@group(0) @binding(5) var<storage, read> operand3: array<f32>;
@group(0) @binding(6) var<storage, read_write> operand4: array<f32>;
var<workgroup> vectors: array<vec4<f32>, 1024>;

@compute @workgroup_size(256)
fn product_84958b82b4a6(
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
    let size3: i32 = arguments.size3;
    let size4: i32 = arguments.size4;
    let offset0: i32 = arguments.offset0;
    let offset1: i32 = arguments.offset1;
    let offset2: i32 = arguments.offset2;
    let offset3: i32 = arguments.offset3;
    let offset4: i32 = arguments.offset4;
    let stride0_0: i32 = arguments.stride0_0;
    let stride0_1: i32 = arguments.stride0_1;
    let stride0_2: i32 = arguments.stride0_2;
    let stride0_3: i32 = arguments.stride0_3;
    let stride1_0: i32 = arguments.stride1_0;
    let stride1_1: i32 = arguments.stride1_1;
    let stride1_2: i32 = arguments.stride1_2;
    let stride1_3: i32 = arguments.stride1_3;
    let stride2_0: i32 = arguments.stride2_0;
    let stride2_1: i32 = arguments.stride2_1;
    let stride2_2: i32 = arguments.stride2_2;
    let stride2_3: i32 = arguments.stride2_3;
    let stride3_0: i32 = arguments.stride3_0;
    let stride3_1: i32 = arguments.stride3_1;
    let stride3_2: i32 = arguments.stride3_2;
    let stride3_3: i32 = arguments.stride3_3;
    let stride4_0: i32 = arguments.stride4_0;
    let stride4_1: i32 = arguments.stride4_1;
    let stride4_2: i32 = arguments.stride4_2;
    let stride4_3: i32 = arguments.stride4_3;
    let row_tiles: i32 = (size2 + 15) / 16;
    let column_tiles: i32 = (size3 + 15) / 16;
    let tiles: i32 = size0 * size1 * row_tiles * column_tiles;
    let slice: i32 = thread / 16;
    let row: i32 = thread / 4 % 4;
    let column: i32 = thread % 4;
    let a_across: bool = stride0_2 == 1;
    let a_deep0: i32 = select((thread) % 128, (thread) / 4, a_across);
    let a_free0: i32 = select((thread) / 128, (thread) % 4, a_across);
    let a_place0: i32 = 0 + a_deep0 * 4 + (a_free0 ^ (a_deep0 & 3));
    let a_deep1: i32 = select((thread + 256) % 128, (thread + 256) / 4, a_across);
    let a_free1: i32 = select((thread + 256) / 128, (thread + 256) % 4, a_across);
    let a_place1: i32 = 0 + a_deep1 * 4 + (a_free1 ^ (a_deep1 & 3));
    let b_across: bool = stride1_2 != 1;
    let b_deep0: i32 = select((thread) % 128, (thread) / 4, b_across);
    let b_free0: i32 = select((thread) / 128, (thread) % 4, b_across);
    let b_place0: i32 = 512 + b_deep0 * 4 + (b_free0 ^ (b_deep0 & 3));
    let b_deep1: i32 = select((thread + 256) % 128, (thread + 256) / 4, b_across);
    let b_free1: i32 = select((thread + 256) / 128, (thread + 256) % 4, b_across);
    let b_place1: i32 = 512 + b_deep1 * 4 + (b_free1 ^ (b_deep1 & 3));
    for (var tile: i32 = group; tile < tiles; tile += groups) {
        let batch: i32 = tile / (row_tiles * column_tiles);
        let batch0: i32 = batch / size1;
        let batch1: i32 = batch % size1;
        let first_row: i32 = tile / column_tiles % row_tiles * 16;
        let first_column: i32 = tile % column_tiles * 16;
        let matrix0: i32 = offset0 + batch0 * stride0_0 + batch1 * stride0_1;
        let matrix1: i32 = offset1 + batch0 * stride1_0 + batch1 * stride1_1;
        let matrix2: i32 = offset2 + batch0 * stride2_0 + batch1 * stride2_1;
        let inside: bool = first_row + 16 <= size2 && first_column + 16 <= size3;
        for (var panel: i32 = 0; panel < max(size4, 1); panel += 1024) {
            var sum0_0: vec4<f32> = vec4<f32>(0.0);
            var sum1_0: vec4<f32> = vec4<f32>(0.0);
            var sum2_0: vec4<f32> = vec4<f32>(0.0);
            var sum3_0: vec4<f32> = vec4<f32>(0.0);
            var a0: vec4<f32> = vec4<f32>(0.0);
            var a1: vec4<f32> = vec4<f32>(0.0);
            var b0: vec4<f32> = vec4<f32>(0.0);
            var b1: vec4<f32> = vec4<f32>(0.0);
            let end: i32 = min(panel + 1024, size4);
            for (var start: i32 = panel - 128; start < end; start += 128) {
                let next: i32 = start + 128;
                if (next < end) {
                    if (inside && next + 128 <= end) {
                        let a_at0: i32 = matrix0 + (first_row + a_free0 * 4) * stride0_2 + (next + a_deep0) * stride0_3;
                        a0 = vec4<f32>(operand0[a_at0], operand0[a_at0 + 1 * stride0_2], operand0[a_at0 + 2 * stride0_2], operand0[a_at0 + 3 * stride0_2]);
                        let a_at1: i32 = matrix0 + (first_row + a_free1 * 4) * stride0_2 + (next + a_deep1) * stride0_3;
                        a1 = vec4<f32>(operand0[a_at1], operand0[a_at1 + 1 * stride0_2], operand0[a_at1 + 2 * stride0_2], operand0[a_at1 + 3 * stride0_2]);
                        let b_at0: i32 = matrix1 + (first_column + b_free0 * 4) * stride1_3 + (next + b_deep0) * stride1_2;
                        b0 = vec4<f32>(operand1[b_at0], operand1[b_at0 + 1 * stride1_3], operand1[b_at0 + 2 * stride1_3], operand1[b_at0 + 3 * stride1_3]);
                        let b_at1: i32 = matrix1 + (first_column + b_free1 * 4) * stride1_3 + (next + b_deep1) * stride1_2;
                        b1 = vec4<f32>(operand1[b_at1], operand1[b_at1 + 1 * stride1_3], operand1[b_at1 + 2 * stride1_3], operand1[b_at1 + 3 * stride1_3]);
                    }
                    else {
                        let a_at0: i32 = matrix0 + (first_row + a_free0 * 4) * stride0_2 + (next + a_deep0) * stride0_3;
                        let a_here0_0: bool = first_row + a_free0 * 4 + 0 < size2 && next + a_deep0 < end;
                        let a_here0_1: bool = first_row + a_free0 * 4 + 1 < size2 && next + a_deep0 < end;
                        let a_here0_2: bool = first_row + a_free0 * 4 + 2 < size2 && next + a_deep0 < end;
                        let a_here0_3: bool = first_row + a_free0 * 4 + 3 < size2 && next + a_deep0 < end;
                        a0 = vec4<f32>(select(0.0, operand0[select(matrix0, a_at0, a_here0_0)], a_here0_0), select(0.0, operand0[select(matrix0, a_at0 + 1 * stride0_2, a_here0_1)], a_here0_1), select(0.0, operand0[select(matrix0, a_at0 + 2 * stride0_2, a_here0_2)], a_here0_2), select(0.0, operand0[select(matrix0, a_at0 + 3 * stride0_2, a_here0_3)], a_here0_3));
                        let a_at1: i32 = matrix0 + (first_row + a_free1 * 4) * stride0_2 + (next + a_deep1) * stride0_3;
                        let a_here1_0: bool = first_row + a_free1 * 4 + 0 < size2 && next + a_deep1 < end;
                        let a_here1_1: bool = first_row + a_free1 * 4 + 1 < size2 && next + a_deep1 < end;
                        let a_here1_2: bool = first_row + a_free1 * 4 + 2 < size2 && next + a_deep1 < end;
                        let a_here1_3: bool = first_row + a_free1 * 4 + 3 < size2 && next + a_deep1 < end;
                        a1 = vec4<f32>(select(0.0, operand0[select(matrix0, a_at1, a_here1_0)], a_here1_0), select(0.0, operand0[select(matrix0, a_at1 + 1 * stride0_2, a_here1_1)], a_here1_1), select(0.0, operand0[select(matrix0, a_at1 + 2 * stride0_2, a_here1_2)], a_here1_2), select(0.0, operand0[select(matrix0, a_at1 + 3 * stride0_2, a_here1_3)], a_here1_3));
                        let b_at0: i32 = matrix1 + (first_column + b_free0 * 4) * stride1_3 + (next + b_deep0) * stride1_2;
                        let b_here0_0: bool = first_column + b_free0 * 4 + 0 < size3 && next + b_deep0 < end;
                        let b_here0_1: bool = first_column + b_free0 * 4 + 1 < size3 && next + b_deep0 < end;
                        let b_here0_2: bool = first_column + b_free0 * 4 + 2 < size3 && next + b_deep0 < end;
                        let b_here0_3: bool = first_column + b_free0 * 4 + 3 < size3 && next + b_deep0 < end;
                        b0 = vec4<f32>(select(0.0, operand1[select(matrix1, b_at0, b_here0_0)], b_here0_0), select(0.0, operand1[select(matrix1, b_at0 + 1 * stride1_3, b_here0_1)], b_here0_1), select(0.0, operand1[select(matrix1, b_at0 + 2 * stride1_3, b_here0_2)], b_here0_2), select(0.0, operand1[select(matrix1, b_at0 + 3 * stride1_3, b_here0_3)], b_here0_3));
                        let b_at1: i32 = matrix1 + (first_column + b_free1 * 4) * stride1_3 + (next + b_deep1) * stride1_2;
                        let b_here1_0: bool = first_column + b_free1 * 4 + 0 < size3 && next + b_deep1 < end;
                        let b_here1_1: bool = first_column + b_free1 * 4 + 1 < size3 && next + b_deep1 < end;
                        let b_here1_2: bool = first_column + b_free1 * 4 + 2 < size3 && next + b_deep1 < end;
                        let b_here1_3: bool = first_column + b_free1 * 4 + 3 < size3 && next + b_deep1 < end;
                        b1 = vec4<f32>(select(0.0, operand1[select(matrix1, b_at1, b_here1_0)], b_here1_0), select(0.0, operand1[select(matrix1, b_at1 + 1 * stride1_3, b_here1_1)], b_here1_1), select(0.0, operand1[select(matrix1, b_at1 + 2 * stride1_3, b_here1_2)], b_here1_2), select(0.0, operand1[select(matrix1, b_at1 + 3 * stride1_3, b_here1_3)], b_here1_3));
                    }
                }
                if (start >= panel) {
                    let a_from: i32 = (slice * 8) * 4;
                    let b_from: i32 = a_from + 512;
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 0 + (row ^ 0)];
                        let b_part0: vec4<f32> = vectors[b_from + 0 + (column ^ 0)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 4 + (row ^ 1)];
                        let b_part0: vec4<f32> = vectors[b_from + 4 + (column ^ 1)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 8 + (row ^ 2)];
                        let b_part0: vec4<f32> = vectors[b_from + 8 + (column ^ 2)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 12 + (row ^ 3)];
                        let b_part0: vec4<f32> = vectors[b_from + 12 + (column ^ 3)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 16 + (row ^ 0)];
                        let b_part0: vec4<f32> = vectors[b_from + 16 + (column ^ 0)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 20 + (row ^ 1)];
                        let b_part0: vec4<f32> = vectors[b_from + 20 + (column ^ 1)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 24 + (row ^ 2)];
                        let b_part0: vec4<f32> = vectors[b_from + 24 + (column ^ 2)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 28 + (row ^ 3)];
                        let b_part0: vec4<f32> = vectors[b_from + 28 + (column ^ 3)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                    }
                }
                workgroupBarrier();
                vectors[a_place0] = a0;
                vectors[a_place1] = a1;
                vectors[b_place0] = b0;
                vectors[b_place1] = b1;
                workgroupBarrier();
            }
            if (panel + 1024 < size4) {
                vectors[thread + 0] = sum0_0;
                vectors[thread + 256] = sum1_0;
                vectors[thread + 512] = sum2_0;
                vectors[thread + 768] = sum3_0;
                workgroupBarrier();
                for (var own: i32 = thread; own < 64; own += 256) {
                    let at: i32 = own / 16 * 256 + own % 16;
                    var total: vec4<f32> = vectors[at];
                    total += vectors[at + 16];
                    total += vectors[at + 32];
                    total += vectors[at + 48];
                    total += vectors[at + 64];
                    total += vectors[at + 80];
                    total += vectors[at + 96];
                    total += vectors[at + 112];
                    total += vectors[at + 128];
                    total += vectors[at + 144];
                    total += vectors[at + 160];
                    total += vectors[at + 176];
                    total += vectors[at + 192];
                    total += vectors[at + 208];
                    total += vectors[at + 224];
                    total += vectors[at + 240];
                    let number: i32 = own / 16 + 0;
                    let i: i32 = number / 1;
                    let own_row: i32 = own % 16 / 4 + i / 4 * 4;
                    let own_column: i32 = own % 4 + number % 1 * 4;
                    let to_row: i32 = first_row + own_row * 4 + i % 4;
                    if (to_row < size2) {
                        let row_at: i32 = matrix2 + to_row * stride2_2;
                        if (first_column + own_column * 4 + 0 < size3) {
                            let to: i32 = row_at + (first_column + own_column * 4 + 0) * stride2_3;
                            var v0: f32 = total.x;
                            if (panel > 0) { v0 = operand2[to] + total.x; }
                            operand2[to] = v0;
                        }
                        if (first_column + own_column * 4 + 1 < size3) {
                            let to: i32 = row_at + (first_column + own_column * 4 + 1) * stride2_3;
                            var v1: f32 = total.y;
                            if (panel > 0) { v1 = operand2[to] + total.y; }
                            operand2[to] = v1;
                        }
                        if (first_column + own_column * 4 + 2 < size3) {
                            let to: i32 = row_at + (first_column + own_column * 4 + 2) * stride2_3;
                            var v2: f32 = total.z;
                            if (panel > 0) { v2 = operand2[to] + total.z; }
                            operand2[to] = v2;
                        }
                        if (first_column + own_column * 4 + 3 < size3) {
                            let to: i32 = row_at + (first_column + own_column * 4 + 3) * stride2_3;
                            var v3: f32 = total.w;
                            if (panel > 0) { v3 = operand2[to] + total.w; }
                            operand2[to] = v3;
                        }
                    }
                }
                workgroupBarrier();
            }
            else {
                vectors[thread + 0] = sum0_0;
                vectors[thread + 256] = sum1_0;
                vectors[thread + 512] = sum2_0;
                vectors[thread + 768] = sum3_0;
                workgroupBarrier();
                for (var own: i32 = thread; own < 64; own += 256) {
                    let at: i32 = own / 16 * 256 + own % 16;
                    var total: vec4<f32> = vectors[at];
                    total += vectors[at + 16];
                    total += vectors[at + 32];
                    total += vectors[at + 48];
                    total += vectors[at + 64];
                    total += vectors[at + 80];
                    total += vectors[at + 96];
                    total += vectors[at + 112];
                    total += vectors[at + 128];
                    total += vectors[at + 144];
                    total += vectors[at + 160];
                    total += vectors[at + 176];
                    total += vectors[at + 192];
                    total += vectors[at + 208];
                    total += vectors[at + 224];
                    total += vectors[at + 240];
                    let number: i32 = own / 16 + 0;
                    let i: i32 = number / 1;
                    let own_row: i32 = own % 16 / 4 + i / 4 * 4;
                    let own_column: i32 = own % 4 + number % 1 * 4;
                    let to_row: i32 = first_row + own_row * 4 + i % 4;
                    if (to_row < size2) {
                        let row_at: i32 = matrix2 + to_row * stride2_2;
                        for (var part: i32 = 0; part < 4; part += 1) {
                            let own_place: i32 = first_column + own_column * 4 + part;
                            if (own_place < size3) {
                                let to: i32 = row_at + own_place * stride2_3;
                                let v4: f32 = total[part];
                                var v5: f32 = v4;
                                if (panel > 0) { v5 = operand2[to] + v4; }
                                let v6: f32 = operand3[offset3 + batch0 * stride3_0 + batch1 * stride3_1 + to_row * stride3_2 + own_place * stride3_3];
                                let v7: f32 = v5 + v6;
                                let v8: bool = v7 > 0.0f;
                                let v9: bool = (bitcast<u32>(v7) & 0x7fffffffu) > 0x7f800000u;
                                let v10: bool = v8 | v9;
                                let v11: f32 = select(0.0f, v7, v10);
                                operand4[offset4 + batch0 * stride4_0 + batch1 * stride4_1 + to_row * stride4_2 + own_place * stride4_3] = v11;
                            }
                        }
                    }
                }
                workgroupBarrier();
            }
        }
    }
}
