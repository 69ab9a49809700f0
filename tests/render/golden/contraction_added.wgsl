struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, size3: i32, size4: i32, offset0: i32, offset1: i32, offset2: i32, stride0_0: i32, stride0_1: i32, stride0_2: i32, stride0_3: i32, stride1_0: i32, stride1_1: i32, stride1_2: i32, stride1_3: i32, stride2_0: i32, stride2_1: i32, stride2_2: i32, stride2_3: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read> operand1: array<f32>;
@group(0) @binding(4) var<storage, read_write> operand2: array<f32>;
var<workgroup> vectors: array<vec4<f32>, 1024>;

@compute @workgroup_size(256)
fn contraction_float32_float32(
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
    let row_tiles: i32 = (size2 + 63) / 64;
    let column_tiles: i32 = (size3 + 63) / 64;
    let tiles: i32 = size0 * size1 * row_tiles * column_tiles;
    let slice: i32 = thread / 64;
    let row: i32 = thread / 8 % 8;
    let column: i32 = thread % 8;
    let a_across: bool = stride0_2 == 1;
    let a_deep0: i32 = select((thread) % 32, (thread) / 16, a_across);
    let a_free0: i32 = select((thread) / 32, (thread) % 16, a_across);
    let a_place0: i32 = 0 + a_deep0 * 16 + (a_free0 ^ (a_deep0 & 7));
    let a_deep1: i32 = select((thread + 256) % 32, (thread + 256) / 16, a_across);
    let a_free1: i32 = select((thread + 256) / 32, (thread + 256) % 16, a_across);
    let a_place1: i32 = 0 + a_deep1 * 16 + (a_free1 ^ (a_deep1 & 7));
    let b_across: bool = stride1_2 != 1;
    let b_deep0: i32 = select((thread) % 32, (thread) / 16, b_across);
    let b_free0: i32 = select((thread) / 32, (thread) % 16, b_across);
    let b_place0: i32 = 512 + b_deep0 * 16 + (b_free0 ^ (b_deep0 & 7));
    let b_deep1: i32 = select((thread + 256) % 32, (thread + 256) / 16, b_across);
    let b_free1: i32 = select((thread + 256) / 32, (thread + 256) % 16, b_across);
    let b_place1: i32 = 512 + b_deep1 * 16 + (b_free1 ^ (b_deep1 & 7));
    for (var tile: i32 = group; tile < tiles; tile += groups) {
        let batch: i32 = tile / (row_tiles * column_tiles);
        let batch0: i32 = batch / size1;
        let batch1: i32 = batch % size1;
        let first_row: i32 = tile / column_tiles % row_tiles * 64;
        let first_column: i32 = tile % column_tiles * 64;
        let matrix0: i32 = offset0 + batch0 * stride0_0 + batch1 * stride0_1;
        let matrix1: i32 = offset1 + batch0 * stride1_0 + batch1 * stride1_1;
        let matrix2: i32 = offset2 + batch0 * stride2_0 + batch1 * stride2_1;
        let inside: bool = first_row + 64 <= size2 && first_column + 64 <= size3;
        for (var panel: i32 = 0; panel < max(size4, 1); panel += 1024) {
            var sum0_0: vec4<f32> = vec4<f32>(0.0);
            var sum0_1: vec4<f32> = vec4<f32>(0.0);
            var sum1_0: vec4<f32> = vec4<f32>(0.0);
            var sum1_1: vec4<f32> = vec4<f32>(0.0);
            var sum2_0: vec4<f32> = vec4<f32>(0.0);
            var sum2_1: vec4<f32> = vec4<f32>(0.0);
            var sum3_0: vec4<f32> = vec4<f32>(0.0);
            var sum3_1: vec4<f32> = vec4<f32>(0.0);
            var sum4_0: vec4<f32> = vec4<f32>(0.0);
            var sum4_1: vec4<f32> = vec4<f32>(0.0);
            var sum5_0: vec4<f32> = vec4<f32>(0.0);
            var sum5_1: vec4<f32> = vec4<f32>(0.0);
            var sum6_0: vec4<f32> = vec4<f32>(0.0);
            var sum6_1: vec4<f32> = vec4<f32>(0.0);
            var sum7_0: vec4<f32> = vec4<f32>(0.0);
            var sum7_1: vec4<f32> = vec4<f32>(0.0);
            var a0: vec4<f32> = vec4<f32>(0.0);
            var a1: vec4<f32> = vec4<f32>(0.0);
            var b0: vec4<f32> = vec4<f32>(0.0);
            var b1: vec4<f32> = vec4<f32>(0.0);
            let end: i32 = min(panel + 1024, size4);
            for (var start: i32 = panel - 32; start < end; start += 32) {
                let next: i32 = start + 32;
                if (next < end) {
                    if (inside && next + 32 <= end) {
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
                    let a_from: i32 = (slice * 8) * 16;
                    let b_from: i32 = a_from + 512;
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 0 + (row ^ 0)];
                        let b_part0: vec4<f32> = vectors[b_from + 0 + (column ^ 0)];
                        let a_part1: vec4<f32> = vectors[a_from + 8 + (row ^ 0)];
                        let b_part1: vec4<f32> = vectors[b_from + 8 + (column ^ 0)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum0_1 = fma(vec4<f32>(a_part0.x), b_part1, sum0_1);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum1_1 = fma(vec4<f32>(a_part0.y), b_part1, sum1_1);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum2_1 = fma(vec4<f32>(a_part0.z), b_part1, sum2_1);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                        sum3_1 = fma(vec4<f32>(a_part0.w), b_part1, sum3_1);
                        sum4_0 = fma(vec4<f32>(a_part1.x), b_part0, sum4_0);
                        sum4_1 = fma(vec4<f32>(a_part1.x), b_part1, sum4_1);
                        sum5_0 = fma(vec4<f32>(a_part1.y), b_part0, sum5_0);
                        sum5_1 = fma(vec4<f32>(a_part1.y), b_part1, sum5_1);
                        sum6_0 = fma(vec4<f32>(a_part1.z), b_part0, sum6_0);
                        sum6_1 = fma(vec4<f32>(a_part1.z), b_part1, sum6_1);
                        sum7_0 = fma(vec4<f32>(a_part1.w), b_part0, sum7_0);
                        sum7_1 = fma(vec4<f32>(a_part1.w), b_part1, sum7_1);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 16 + (row ^ 1)];
                        let b_part0: vec4<f32> = vectors[b_from + 16 + (column ^ 1)];
                        let a_part1: vec4<f32> = vectors[a_from + 24 + (row ^ 1)];
                        let b_part1: vec4<f32> = vectors[b_from + 24 + (column ^ 1)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum0_1 = fma(vec4<f32>(a_part0.x), b_part1, sum0_1);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum1_1 = fma(vec4<f32>(a_part0.y), b_part1, sum1_1);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum2_1 = fma(vec4<f32>(a_part0.z), b_part1, sum2_1);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                        sum3_1 = fma(vec4<f32>(a_part0.w), b_part1, sum3_1);
                        sum4_0 = fma(vec4<f32>(a_part1.x), b_part0, sum4_0);
                        sum4_1 = fma(vec4<f32>(a_part1.x), b_part1, sum4_1);
                        sum5_0 = fma(vec4<f32>(a_part1.y), b_part0, sum5_0);
                        sum5_1 = fma(vec4<f32>(a_part1.y), b_part1, sum5_1);
                        sum6_0 = fma(vec4<f32>(a_part1.z), b_part0, sum6_0);
                        sum6_1 = fma(vec4<f32>(a_part1.z), b_part1, sum6_1);
                        sum7_0 = fma(vec4<f32>(a_part1.w), b_part0, sum7_0);
                        sum7_1 = fma(vec4<f32>(a_part1.w), b_part1, sum7_1);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 32 + (row ^ 2)];
                        let b_part0: vec4<f32> = vectors[b_from + 32 + (column ^ 2)];
                        let a_part1: vec4<f32> = vectors[a_from + 40 + (row ^ 2)];
                        let b_part1: vec4<f32> = vectors[b_from + 40 + (column ^ 2)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum0_1 = fma(vec4<f32>(a_part0.x), b_part1, sum0_1);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum1_1 = fma(vec4<f32>(a_part0.y), b_part1, sum1_1);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum2_1 = fma(vec4<f32>(a_part0.z), b_part1, sum2_1);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                        sum3_1 = fma(vec4<f32>(a_part0.w), b_part1, sum3_1);
                        sum4_0 = fma(vec4<f32>(a_part1.x), b_part0, sum4_0);
                        sum4_1 = fma(vec4<f32>(a_part1.x), b_part1, sum4_1);
                        sum5_0 = fma(vec4<f32>(a_part1.y), b_part0, sum5_0);
                        sum5_1 = fma(vec4<f32>(a_part1.y), b_part1, sum5_1);
                        sum6_0 = fma(vec4<f32>(a_part1.z), b_part0, sum6_0);
                        sum6_1 = fma(vec4<f32>(a_part1.z), b_part1, sum6_1);
                        sum7_0 = fma(vec4<f32>(a_part1.w), b_part0, sum7_0);
                        sum7_1 = fma(vec4<f32>(a_part1.w), b_part1, sum7_1);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 48 + (row ^ 3)];
                        let b_part0: vec4<f32> = vectors[b_from + 48 + (column ^ 3)];
                        let a_part1: vec4<f32> = vectors[a_from + 56 + (row ^ 3)];
                        let b_part1: vec4<f32> = vectors[b_from + 56 + (column ^ 3)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum0_1 = fma(vec4<f32>(a_part0.x), b_part1, sum0_1);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum1_1 = fma(vec4<f32>(a_part0.y), b_part1, sum1_1);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum2_1 = fma(vec4<f32>(a_part0.z), b_part1, sum2_1);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                        sum3_1 = fma(vec4<f32>(a_part0.w), b_part1, sum3_1);
                        sum4_0 = fma(vec4<f32>(a_part1.x), b_part0, sum4_0);
                        sum4_1 = fma(vec4<f32>(a_part1.x), b_part1, sum4_1);
                        sum5_0 = fma(vec4<f32>(a_part1.y), b_part0, sum5_0);
                        sum5_1 = fma(vec4<f32>(a_part1.y), b_part1, sum5_1);
                        sum6_0 = fma(vec4<f32>(a_part1.z), b_part0, sum6_0);
                        sum6_1 = fma(vec4<f32>(a_part1.z), b_part1, sum6_1);
                        sum7_0 = fma(vec4<f32>(a_part1.w), b_part0, sum7_0);
                        sum7_1 = fma(vec4<f32>(a_part1.w), b_part1, sum7_1);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 64 + (row ^ 4)];
                        let b_part0: vec4<f32> = vectors[b_from + 64 + (column ^ 4)];
                        let a_part1: vec4<f32> = vectors[a_from + 72 + (row ^ 4)];
                        let b_part1: vec4<f32> = vectors[b_from + 72 + (column ^ 4)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum0_1 = fma(vec4<f32>(a_part0.x), b_part1, sum0_1);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum1_1 = fma(vec4<f32>(a_part0.y), b_part1, sum1_1);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum2_1 = fma(vec4<f32>(a_part0.z), b_part1, sum2_1);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                        sum3_1 = fma(vec4<f32>(a_part0.w), b_part1, sum3_1);
                        sum4_0 = fma(vec4<f32>(a_part1.x), b_part0, sum4_0);
                        sum4_1 = fma(vec4<f32>(a_part1.x), b_part1, sum4_1);
                        sum5_0 = fma(vec4<f32>(a_part1.y), b_part0, sum5_0);
                        sum5_1 = fma(vec4<f32>(a_part1.y), b_part1, sum5_1);
                        sum6_0 = fma(vec4<f32>(a_part1.z), b_part0, sum6_0);
                        sum6_1 = fma(vec4<f32>(a_part1.z), b_part1, sum6_1);
                        sum7_0 = fma(vec4<f32>(a_part1.w), b_part0, sum7_0);
                        sum7_1 = fma(vec4<f32>(a_part1.w), b_part1, sum7_1);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 80 + (row ^ 5)];
                        let b_part0: vec4<f32> = vectors[b_from + 80 + (column ^ 5)];
                        let a_part1: vec4<f32> = vectors[a_from + 88 + (row ^ 5)];
                        let b_part1: vec4<f32> = vectors[b_from + 88 + (column ^ 5)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum0_1 = fma(vec4<f32>(a_part0.x), b_part1, sum0_1);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum1_1 = fma(vec4<f32>(a_part0.y), b_part1, sum1_1);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum2_1 = fma(vec4<f32>(a_part0.z), b_part1, sum2_1);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                        sum3_1 = fma(vec4<f32>(a_part0.w), b_part1, sum3_1);
                        sum4_0 = fma(vec4<f32>(a_part1.x), b_part0, sum4_0);
                        sum4_1 = fma(vec4<f32>(a_part1.x), b_part1, sum4_1);
                        sum5_0 = fma(vec4<f32>(a_part1.y), b_part0, sum5_0);
                        sum5_1 = fma(vec4<f32>(a_part1.y), b_part1, sum5_1);
                        sum6_0 = fma(vec4<f32>(a_part1.z), b_part0, sum6_0);
                        sum6_1 = fma(vec4<f32>(a_part1.z), b_part1, sum6_1);
                        sum7_0 = fma(vec4<f32>(a_part1.w), b_part0, sum7_0);
                        sum7_1 = fma(vec4<f32>(a_part1.w), b_part1, sum7_1);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 96 + (row ^ 6)];
                        let b_part0: vec4<f32> = vectors[b_from + 96 + (column ^ 6)];
                        let a_part1: vec4<f32> = vectors[a_from + 104 + (row ^ 6)];
                        let b_part1: vec4<f32> = vectors[b_from + 104 + (column ^ 6)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum0_1 = fma(vec4<f32>(a_part0.x), b_part1, sum0_1);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum1_1 = fma(vec4<f32>(a_part0.y), b_part1, sum1_1);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum2_1 = fma(vec4<f32>(a_part0.z), b_part1, sum2_1);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                        sum3_1 = fma(vec4<f32>(a_part0.w), b_part1, sum3_1);
                        sum4_0 = fma(vec4<f32>(a_part1.x), b_part0, sum4_0);
                        sum4_1 = fma(vec4<f32>(a_part1.x), b_part1, sum4_1);
                        sum5_0 = fma(vec4<f32>(a_part1.y), b_part0, sum5_0);
                        sum5_1 = fma(vec4<f32>(a_part1.y), b_part1, sum5_1);
                        sum6_0 = fma(vec4<f32>(a_part1.z), b_part0, sum6_0);
                        sum6_1 = fma(vec4<f32>(a_part1.z), b_part1, sum6_1);
                        sum7_0 = fma(vec4<f32>(a_part1.w), b_part0, sum7_0);
                        sum7_1 = fma(vec4<f32>(a_part1.w), b_part1, sum7_1);
                    }
                    {
                        let a_part0: vec4<f32> = vectors[a_from + 112 + (row ^ 7)];
                        let b_part0: vec4<f32> = vectors[b_from + 112 + (column ^ 7)];
                        let a_part1: vec4<f32> = vectors[a_from + 120 + (row ^ 7)];
                        let b_part1: vec4<f32> = vectors[b_from + 120 + (column ^ 7)];
                        sum0_0 = fma(vec4<f32>(a_part0.x), b_part0, sum0_0);
                        sum0_1 = fma(vec4<f32>(a_part0.x), b_part1, sum0_1);
                        sum1_0 = fma(vec4<f32>(a_part0.y), b_part0, sum1_0);
                        sum1_1 = fma(vec4<f32>(a_part0.y), b_part1, sum1_1);
                        sum2_0 = fma(vec4<f32>(a_part0.z), b_part0, sum2_0);
                        sum2_1 = fma(vec4<f32>(a_part0.z), b_part1, sum2_1);
                        sum3_0 = fma(vec4<f32>(a_part0.w), b_part0, sum3_0);
                        sum3_1 = fma(vec4<f32>(a_part0.w), b_part1, sum3_1);
                        sum4_0 = fma(vec4<f32>(a_part1.x), b_part0, sum4_0);
                        sum4_1 = fma(vec4<f32>(a_part1.x), b_part1, sum4_1);
                        sum5_0 = fma(vec4<f32>(a_part1.y), b_part0, sum5_0);
                        sum5_1 = fma(vec4<f32>(a_part1.y), b_part1, sum5_1);
                        sum6_0 = fma(vec4<f32>(a_part1.z), b_part0, sum6_0);
                        sum6_1 = fma(vec4<f32>(a_part1.z), b_part1, sum6_1);
                        sum7_0 = fma(vec4<f32>(a_part1.w), b_part0, sum7_0);
                        sum7_1 = fma(vec4<f32>(a_part1.w), b_part1, sum7_1);
                    }
                }
                workgroupBarrier();
                vectors[a_place0] = a0;
                vectors[a_place1] = a1;
                vectors[b_place0] = b0;
                vectors[b_place1] = b1;
                workgroupBarrier();
            }
            vectors[thread + 0] = sum0_0;
            vectors[thread + 256] = sum0_1;
            vectors[thread + 512] = sum1_0;
            vectors[thread + 768] = sum1_1;
            workgroupBarrier();
            for (var own: i32 = thread; own < 256; own += 256) {
                let at: i32 = own / 64 * 256 + own % 64;
                var total: vec4<f32> = vectors[at];
                total += vectors[at + 64];
                total += vectors[at + 128];
                total += vectors[at + 192];
                let number: i32 = own / 64 + 0;
                let i: i32 = number / 2;
                let own_row: i32 = own % 64 / 8 + i / 4 * 8;
                let own_column: i32 = own % 8 + number % 2 * 8;
                let to_row: i32 = first_row + own_row * 4 + i % 4;
                if (to_row < size2) {
                    let row_at: i32 = matrix2 + to_row * stride2_2;
                    if (first_column + own_column * 4 + 0 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 0) * stride2_3;
                        var v0: f32 = total.x;
                        if (true) { v0 = operand2[to] + total.x; }
                        operand2[to] = v0;
                    }
                    if (first_column + own_column * 4 + 1 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 1) * stride2_3;
                        var v1: f32 = total.y;
                        if (true) { v1 = operand2[to] + total.y; }
                        operand2[to] = v1;
                    }
                    if (first_column + own_column * 4 + 2 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 2) * stride2_3;
                        var v2: f32 = total.z;
                        if (true) { v2 = operand2[to] + total.z; }
                        operand2[to] = v2;
                    }
                    if (first_column + own_column * 4 + 3 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 3) * stride2_3;
                        var v3: f32 = total.w;
                        if (true) { v3 = operand2[to] + total.w; }
                        operand2[to] = v3;
                    }
                }
            }
            workgroupBarrier();
            vectors[thread + 0] = sum2_0;
            vectors[thread + 256] = sum2_1;
            vectors[thread + 512] = sum3_0;
            vectors[thread + 768] = sum3_1;
            workgroupBarrier();
            for (var own: i32 = thread; own < 256; own += 256) {
                let at: i32 = own / 64 * 256 + own % 64;
                var total: vec4<f32> = vectors[at];
                total += vectors[at + 64];
                total += vectors[at + 128];
                total += vectors[at + 192];
                let number: i32 = own / 64 + 4;
                let i: i32 = number / 2;
                let own_row: i32 = own % 64 / 8 + i / 4 * 8;
                let own_column: i32 = own % 8 + number % 2 * 8;
                let to_row: i32 = first_row + own_row * 4 + i % 4;
                if (to_row < size2) {
                    let row_at: i32 = matrix2 + to_row * stride2_2;
                    if (first_column + own_column * 4 + 0 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 0) * stride2_3;
                        var v4: f32 = total.x;
                        if (true) { v4 = operand2[to] + total.x; }
                        operand2[to] = v4;
                    }
                    if (first_column + own_column * 4 + 1 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 1) * stride2_3;
                        var v5: f32 = total.y;
                        if (true) { v5 = operand2[to] + total.y; }
                        operand2[to] = v5;
                    }
                    if (first_column + own_column * 4 + 2 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 2) * stride2_3;
                        var v6: f32 = total.z;
                        if (true) { v6 = operand2[to] + total.z; }
                        operand2[to] = v6;
                    }
                    if (first_column + own_column * 4 + 3 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 3) * stride2_3;
                        var v7: f32 = total.w;
                        if (true) { v7 = operand2[to] + total.w; }
                        operand2[to] = v7;
                    }
                }
            }
            workgroupBarrier();
            vectors[thread + 0] = sum4_0;
            vectors[thread + 256] = sum4_1;
            vectors[thread + 512] = sum5_0;
            vectors[thread + 768] = sum5_1;
            workgroupBarrier();
            for (var own: i32 = thread; own < 256; own += 256) {
                let at: i32 = own / 64 * 256 + own % 64;
                var total: vec4<f32> = vectors[at];
                total += vectors[at + 64];
                total += vectors[at + 128];
                total += vectors[at + 192];
                let number: i32 = own / 64 + 8;
                let i: i32 = number / 2;
                let own_row: i32 = own % 64 / 8 + i / 4 * 8;
                let own_column: i32 = own % 8 + number % 2 * 8;
                let to_row: i32 = first_row + own_row * 4 + i % 4;
                if (to_row < size2) {
                    let row_at: i32 = matrix2 + to_row * stride2_2;
                    if (first_column + own_column * 4 + 0 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 0) * stride2_3;
                        var v8: f32 = total.x;
                        if (true) { v8 = operand2[to] + total.x; }
                        operand2[to] = v8;
                    }
                    if (first_column + own_column * 4 + 1 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 1) * stride2_3;
                        var v9: f32 = total.y;
                        if (true) { v9 = operand2[to] + total.y; }
                        operand2[to] = v9;
                    }
                    if (first_column + own_column * 4 + 2 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 2) * stride2_3;
                        var v10: f32 = total.z;
                        if (true) { v10 = operand2[to] + total.z; }
                        operand2[to] = v10;
                    }
                    if (first_column + own_column * 4 + 3 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 3) * stride2_3;
                        var v11: f32 = total.w;
                        if (true) { v11 = operand2[to] + total.w; }
                        operand2[to] = v11;
                    }
                }
            }
            workgroupBarrier();
            vectors[thread + 0] = sum6_0;
            vectors[thread + 256] = sum6_1;
            vectors[thread + 512] = sum7_0;
            vectors[thread + 768] = sum7_1;
            workgroupBarrier();
            for (var own: i32 = thread; own < 256; own += 256) {
                let at: i32 = own / 64 * 256 + own % 64;
                var total: vec4<f32> = vectors[at];
                total += vectors[at + 64];
                total += vectors[at + 128];
                total += vectors[at + 192];
                let number: i32 = own / 64 + 12;
                let i: i32 = number / 2;
                let own_row: i32 = own % 64 / 8 + i / 4 * 8;
                let own_column: i32 = own % 8 + number % 2 * 8;
                let to_row: i32 = first_row + own_row * 4 + i % 4;
                if (to_row < size2) {
                    let row_at: i32 = matrix2 + to_row * stride2_2;
                    if (first_column + own_column * 4 + 0 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 0) * stride2_3;
                        var v12: f32 = total.x;
                        if (true) { v12 = operand2[to] + total.x; }
                        operand2[to] = v12;
                    }
                    if (first_column + own_column * 4 + 1 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 1) * stride2_3;
                        var v13: f32 = total.y;
                        if (true) { v13 = operand2[to] + total.y; }
                        operand2[to] = v13;
                    }
                    if (first_column + own_column * 4 + 2 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 2) * stride2_3;
                        var v14: f32 = total.z;
                        if (true) { v14 = operand2[to] + total.z; }
                        operand2[to] = v14;
                    }
                    if (first_column + own_column * 4 + 3 < size3) {
                        let to: i32 = row_at + (first_column + own_column * 4 + 3) * stride2_3;
                        var v15: f32 = total.w;
                        if (true) { v15 = operand2[to] + total.w; }
                        operand2[to] = v15;
                    }
                }
            }
            workgroupBarrier();
        }
    }
}
