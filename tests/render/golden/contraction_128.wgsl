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
    let row_tiles: i32 = (size2 + 127) / 128;
    let column_tiles: i32 = (size3 + 127) / 128;
    let tiles: i32 = size0 * size1 * row_tiles * column_tiles;
    let slice: i32 = thread / 256;
    let row: i32 = thread / 16 % 16;
    let column: i32 = thread % 16;
    let a_across: bool = stride0_2 == 1;
    let a_deep0: i32 = select((thread) % 16, (thread) / 32, a_across);
    let a_free0: i32 = select((thread) / 16, (thread) % 32, a_across);
    let a_place0: i32 = 0 + a_deep0 * 32 + (a_free0 ^ (a_deep0 & 7));
    let a_deep1: i32 = select((thread + 256) % 16, (thread + 256) / 32, a_across);
    let a_free1: i32 = select((thread + 256) / 16, (thread + 256) % 32, a_across);
    let a_place1: i32 = 0 + a_deep1 * 32 + (a_free1 ^ (a_deep1 & 7));
    let b_across: bool = stride1_2 != 1;
    let b_deep0: i32 = select((thread) % 16, (thread) / 32, b_across);
    let b_free0: i32 = select((thread) / 16, (thread) % 32, b_across);
    let b_place0: i32 = 512 + b_deep0 * 32 + (b_free0 ^ (b_deep0 & 7));
    let b_deep1: i32 = select((thread + 256) % 16, (thread + 256) / 32, b_across);
    let b_free1: i32 = select((thread + 256) / 16, (thread + 256) % 32, b_across);
    let b_place1: i32 = 512 + b_deep1 * 32 + (b_free1 ^ (b_deep1 & 7));
    for (var tile: i32 = group; tile < tiles; tile += groups) {
        let batch: i32 = tile / (row_tiles * column_tiles);
        let batch0: i32 = batch / size1;
        let batch1: i32 = batch % size1;
        let first_row: i32 = tile / column_tiles % row_tiles * 128;
        let first_column: i32 = tile % column_tiles * 128;
        let matrix0: i32 = offset0 + batch0 * stride0_0 + batch1 * stride0_1;
        let matrix1: i32 = offset1 + batch0 * stride1_0 + batch1 * stride1_1;
        let matrix2: i32 = offset2 + batch0 * stride2_0 + batch1 * stride2_1;
        let inside: bool = first_row + 128 <= size2 && first_column + 128 <= size3;
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
            for (var start: i32 = panel - 16; start < end; start += 16) {
                let next: i32 = start + 16;
                if (next < end) {
                    if (inside && next + 16 <= end) {
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
                    for (var k: i32 = 0; k < 16; k += 8) {
                        let a_from: i32 = (slice * 16 + k) * 32;
                        let b_from: i32 = a_from + 512;
                        {
                            let a_part0: vec4<f32> = vectors[a_from + 0 + (row ^ 0)];
                            let b_part0: vec4<f32> = vectors[b_from + 0 + (column ^ 0)];
                            let a_part1: vec4<f32> = vectors[a_from + 16 + (row ^ 0)];
                            let b_part1: vec4<f32> = vectors[b_from + 16 + (column ^ 0)];
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
                            let a_part0: vec4<f32> = vectors[a_from + 32 + (row ^ 1)];
                            let b_part0: vec4<f32> = vectors[b_from + 32 + (column ^ 1)];
                            let a_part1: vec4<f32> = vectors[a_from + 48 + (row ^ 1)];
                            let b_part1: vec4<f32> = vectors[b_from + 48 + (column ^ 1)];
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
                            let a_part0: vec4<f32> = vectors[a_from + 64 + (row ^ 2)];
                            let b_part0: vec4<f32> = vectors[b_from + 64 + (column ^ 2)];
                            let a_part1: vec4<f32> = vectors[a_from + 80 + (row ^ 2)];
                            let b_part1: vec4<f32> = vectors[b_from + 80 + (column ^ 2)];
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
                            let a_part0: vec4<f32> = vectors[a_from + 96 + (row ^ 3)];
                            let b_part0: vec4<f32> = vectors[b_from + 96 + (column ^ 3)];
                            let a_part1: vec4<f32> = vectors[a_from + 112 + (row ^ 3)];
                            let b_part1: vec4<f32> = vectors[b_from + 112 + (column ^ 3)];
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
                            let a_part0: vec4<f32> = vectors[a_from + 128 + (row ^ 4)];
                            let b_part0: vec4<f32> = vectors[b_from + 128 + (column ^ 4)];
                            let a_part1: vec4<f32> = vectors[a_from + 144 + (row ^ 4)];
                            let b_part1: vec4<f32> = vectors[b_from + 144 + (column ^ 4)];
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
                            let a_part0: vec4<f32> = vectors[a_from + 160 + (row ^ 5)];
                            let b_part0: vec4<f32> = vectors[b_from + 160 + (column ^ 5)];
                            let a_part1: vec4<f32> = vectors[a_from + 176 + (row ^ 5)];
                            let b_part1: vec4<f32> = vectors[b_from + 176 + (column ^ 5)];
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
                            let a_part0: vec4<f32> = vectors[a_from + 192 + (row ^ 6)];
                            let b_part0: vec4<f32> = vectors[b_from + 192 + (column ^ 6)];
                            let a_part1: vec4<f32> = vectors[a_from + 208 + (row ^ 6)];
                            let b_part1: vec4<f32> = vectors[b_from + 208 + (column ^ 6)];
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
                            let a_part0: vec4<f32> = vectors[a_from + 224 + (row ^ 7)];
                            let b_part0: vec4<f32> = vectors[b_from + 224 + (column ^ 7)];
                            let a_part1: vec4<f32> = vectors[a_from + 240 + (row ^ 7)];
                            let b_part1: vec4<f32> = vectors[b_from + 240 + (column ^ 7)];
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
                }
                workgroupBarrier();
                vectors[a_place0] = a0;
                vectors[a_place1] = a1;
                vectors[b_place0] = b0;
                vectors[b_place1] = b1;
                workgroupBarrier();
            }
            if (first_row + row * 4 + 0 < size2) {
                let row_at: i32 = matrix2 + (first_row + row * 4 + 0) * stride2_2;
                if (first_column + column * 4 + 0 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 0) * stride2_3;
                    var v0: f32 = sum0_0.x;
                    if (panel > 0) { v0 = operand2[to] + sum0_0.x; }
                    operand2[to] = v0;
                }
                if (first_column + column * 4 + 0 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 1) * stride2_3;
                    var v1: f32 = sum0_0.y;
                    if (panel > 0) { v1 = operand2[to] + sum0_0.y; }
                    operand2[to] = v1;
                }
                if (first_column + column * 4 + 0 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 2) * stride2_3;
                    var v2: f32 = sum0_0.z;
                    if (panel > 0) { v2 = operand2[to] + sum0_0.z; }
                    operand2[to] = v2;
                }
                if (first_column + column * 4 + 0 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 3) * stride2_3;
                    var v3: f32 = sum0_0.w;
                    if (panel > 0) { v3 = operand2[to] + sum0_0.w; }
                    operand2[to] = v3;
                }
                if (first_column + column * 4 + 64 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 0) * stride2_3;
                    var v4: f32 = sum0_1.x;
                    if (panel > 0) { v4 = operand2[to] + sum0_1.x; }
                    operand2[to] = v4;
                }
                if (first_column + column * 4 + 64 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 1) * stride2_3;
                    var v5: f32 = sum0_1.y;
                    if (panel > 0) { v5 = operand2[to] + sum0_1.y; }
                    operand2[to] = v5;
                }
                if (first_column + column * 4 + 64 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 2) * stride2_3;
                    var v6: f32 = sum0_1.z;
                    if (panel > 0) { v6 = operand2[to] + sum0_1.z; }
                    operand2[to] = v6;
                }
                if (first_column + column * 4 + 64 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 3) * stride2_3;
                    var v7: f32 = sum0_1.w;
                    if (panel > 0) { v7 = operand2[to] + sum0_1.w; }
                    operand2[to] = v7;
                }
            }
            if (first_row + row * 4 + 1 < size2) {
                let row_at: i32 = matrix2 + (first_row + row * 4 + 1) * stride2_2;
                if (first_column + column * 4 + 0 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 0) * stride2_3;
                    var v8: f32 = sum1_0.x;
                    if (panel > 0) { v8 = operand2[to] + sum1_0.x; }
                    operand2[to] = v8;
                }
                if (first_column + column * 4 + 0 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 1) * stride2_3;
                    var v9: f32 = sum1_0.y;
                    if (panel > 0) { v9 = operand2[to] + sum1_0.y; }
                    operand2[to] = v9;
                }
                if (first_column + column * 4 + 0 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 2) * stride2_3;
                    var v10: f32 = sum1_0.z;
                    if (panel > 0) { v10 = operand2[to] + sum1_0.z; }
                    operand2[to] = v10;
                }
                if (first_column + column * 4 + 0 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 3) * stride2_3;
                    var v11: f32 = sum1_0.w;
                    if (panel > 0) { v11 = operand2[to] + sum1_0.w; }
                    operand2[to] = v11;
                }
                if (first_column + column * 4 + 64 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 0) * stride2_3;
                    var v12: f32 = sum1_1.x;
                    if (panel > 0) { v12 = operand2[to] + sum1_1.x; }
                    operand2[to] = v12;
                }
                if (first_column + column * 4 + 64 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 1) * stride2_3;
                    var v13: f32 = sum1_1.y;
                    if (panel > 0) { v13 = operand2[to] + sum1_1.y; }
                    operand2[to] = v13;
                }
                if (first_column + column * 4 + 64 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 2) * stride2_3;
                    var v14: f32 = sum1_1.z;
                    if (panel > 0) { v14 = operand2[to] + sum1_1.z; }
                    operand2[to] = v14;
                }
                if (first_column + column * 4 + 64 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 3) * stride2_3;
                    var v15: f32 = sum1_1.w;
                    if (panel > 0) { v15 = operand2[to] + sum1_1.w; }
                    operand2[to] = v15;
                }
            }
            if (first_row + row * 4 + 2 < size2) {
                let row_at: i32 = matrix2 + (first_row + row * 4 + 2) * stride2_2;
                if (first_column + column * 4 + 0 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 0) * stride2_3;
                    var v16: f32 = sum2_0.x;
                    if (panel > 0) { v16 = operand2[to] + sum2_0.x; }
                    operand2[to] = v16;
                }
                if (first_column + column * 4 + 0 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 1) * stride2_3;
                    var v17: f32 = sum2_0.y;
                    if (panel > 0) { v17 = operand2[to] + sum2_0.y; }
                    operand2[to] = v17;
                }
                if (first_column + column * 4 + 0 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 2) * stride2_3;
                    var v18: f32 = sum2_0.z;
                    if (panel > 0) { v18 = operand2[to] + sum2_0.z; }
                    operand2[to] = v18;
                }
                if (first_column + column * 4 + 0 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 3) * stride2_3;
                    var v19: f32 = sum2_0.w;
                    if (panel > 0) { v19 = operand2[to] + sum2_0.w; }
                    operand2[to] = v19;
                }
                if (first_column + column * 4 + 64 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 0) * stride2_3;
                    var v20: f32 = sum2_1.x;
                    if (panel > 0) { v20 = operand2[to] + sum2_1.x; }
                    operand2[to] = v20;
                }
                if (first_column + column * 4 + 64 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 1) * stride2_3;
                    var v21: f32 = sum2_1.y;
                    if (panel > 0) { v21 = operand2[to] + sum2_1.y; }
                    operand2[to] = v21;
                }
                if (first_column + column * 4 + 64 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 2) * stride2_3;
                    var v22: f32 = sum2_1.z;
                    if (panel > 0) { v22 = operand2[to] + sum2_1.z; }
                    operand2[to] = v22;
                }
                if (first_column + column * 4 + 64 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 3) * stride2_3;
                    var v23: f32 = sum2_1.w;
                    if (panel > 0) { v23 = operand2[to] + sum2_1.w; }
                    operand2[to] = v23;
                }
            }
            if (first_row + row * 4 + 3 < size2) {
                let row_at: i32 = matrix2 + (first_row + row * 4 + 3) * stride2_2;
                if (first_column + column * 4 + 0 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 0) * stride2_3;
                    var v24: f32 = sum3_0.x;
                    if (panel > 0) { v24 = operand2[to] + sum3_0.x; }
                    operand2[to] = v24;
                }
                if (first_column + column * 4 + 0 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 1) * stride2_3;
                    var v25: f32 = sum3_0.y;
                    if (panel > 0) { v25 = operand2[to] + sum3_0.y; }
                    operand2[to] = v25;
                }
                if (first_column + column * 4 + 0 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 2) * stride2_3;
                    var v26: f32 = sum3_0.z;
                    if (panel > 0) { v26 = operand2[to] + sum3_0.z; }
                    operand2[to] = v26;
                }
                if (first_column + column * 4 + 0 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 3) * stride2_3;
                    var v27: f32 = sum3_0.w;
                    if (panel > 0) { v27 = operand2[to] + sum3_0.w; }
                    operand2[to] = v27;
                }
                if (first_column + column * 4 + 64 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 0) * stride2_3;
                    var v28: f32 = sum3_1.x;
                    if (panel > 0) { v28 = operand2[to] + sum3_1.x; }
                    operand2[to] = v28;
                }
                if (first_column + column * 4 + 64 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 1) * stride2_3;
                    var v29: f32 = sum3_1.y;
                    if (panel > 0) { v29 = operand2[to] + sum3_1.y; }
                    operand2[to] = v29;
                }
                if (first_column + column * 4 + 64 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 2) * stride2_3;
                    var v30: f32 = sum3_1.z;
                    if (panel > 0) { v30 = operand2[to] + sum3_1.z; }
                    operand2[to] = v30;
                }
                if (first_column + column * 4 + 64 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 3) * stride2_3;
                    var v31: f32 = sum3_1.w;
                    if (panel > 0) { v31 = operand2[to] + sum3_1.w; }
                    operand2[to] = v31;
                }
            }
            if (first_row + row * 4 + 64 < size2) {
                let row_at: i32 = matrix2 + (first_row + row * 4 + 64) * stride2_2;
                if (first_column + column * 4 + 0 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 0) * stride2_3;
                    var v32: f32 = sum4_0.x;
                    if (panel > 0) { v32 = operand2[to] + sum4_0.x; }
                    operand2[to] = v32;
                }
                if (first_column + column * 4 + 0 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 1) * stride2_3;
                    var v33: f32 = sum4_0.y;
                    if (panel > 0) { v33 = operand2[to] + sum4_0.y; }
                    operand2[to] = v33;
                }
                if (first_column + column * 4 + 0 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 2) * stride2_3;
                    var v34: f32 = sum4_0.z;
                    if (panel > 0) { v34 = operand2[to] + sum4_0.z; }
                    operand2[to] = v34;
                }
                if (first_column + column * 4 + 0 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 3) * stride2_3;
                    var v35: f32 = sum4_0.w;
                    if (panel > 0) { v35 = operand2[to] + sum4_0.w; }
                    operand2[to] = v35;
                }
                if (first_column + column * 4 + 64 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 0) * stride2_3;
                    var v36: f32 = sum4_1.x;
                    if (panel > 0) { v36 = operand2[to] + sum4_1.x; }
                    operand2[to] = v36;
                }
                if (first_column + column * 4 + 64 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 1) * stride2_3;
                    var v37: f32 = sum4_1.y;
                    if (panel > 0) { v37 = operand2[to] + sum4_1.y; }
                    operand2[to] = v37;
                }
                if (first_column + column * 4 + 64 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 2) * stride2_3;
                    var v38: f32 = sum4_1.z;
                    if (panel > 0) { v38 = operand2[to] + sum4_1.z; }
                    operand2[to] = v38;
                }
                if (first_column + column * 4 + 64 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 3) * stride2_3;
                    var v39: f32 = sum4_1.w;
                    if (panel > 0) { v39 = operand2[to] + sum4_1.w; }
                    operand2[to] = v39;
                }
            }
            if (first_row + row * 4 + 65 < size2) {
                let row_at: i32 = matrix2 + (first_row + row * 4 + 65) * stride2_2;
                if (first_column + column * 4 + 0 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 0) * stride2_3;
                    var v40: f32 = sum5_0.x;
                    if (panel > 0) { v40 = operand2[to] + sum5_0.x; }
                    operand2[to] = v40;
                }
                if (first_column + column * 4 + 0 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 1) * stride2_3;
                    var v41: f32 = sum5_0.y;
                    if (panel > 0) { v41 = operand2[to] + sum5_0.y; }
                    operand2[to] = v41;
                }
                if (first_column + column * 4 + 0 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 2) * stride2_3;
                    var v42: f32 = sum5_0.z;
                    if (panel > 0) { v42 = operand2[to] + sum5_0.z; }
                    operand2[to] = v42;
                }
                if (first_column + column * 4 + 0 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 3) * stride2_3;
                    var v43: f32 = sum5_0.w;
                    if (panel > 0) { v43 = operand2[to] + sum5_0.w; }
                    operand2[to] = v43;
                }
                if (first_column + column * 4 + 64 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 0) * stride2_3;
                    var v44: f32 = sum5_1.x;
                    if (panel > 0) { v44 = operand2[to] + sum5_1.x; }
                    operand2[to] = v44;
                }
                if (first_column + column * 4 + 64 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 1) * stride2_3;
                    var v45: f32 = sum5_1.y;
                    if (panel > 0) { v45 = operand2[to] + sum5_1.y; }
                    operand2[to] = v45;
                }
                if (first_column + column * 4 + 64 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 2) * stride2_3;
                    var v46: f32 = sum5_1.z;
                    if (panel > 0) { v46 = operand2[to] + sum5_1.z; }
                    operand2[to] = v46;
                }
                if (first_column + column * 4 + 64 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 3) * stride2_3;
                    var v47: f32 = sum5_1.w;
                    if (panel > 0) { v47 = operand2[to] + sum5_1.w; }
                    operand2[to] = v47;
                }
            }
            if (first_row + row * 4 + 66 < size2) {
                let row_at: i32 = matrix2 + (first_row + row * 4 + 66) * stride2_2;
                if (first_column + column * 4 + 0 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 0) * stride2_3;
                    var v48: f32 = sum6_0.x;
                    if (panel > 0) { v48 = operand2[to] + sum6_0.x; }
                    operand2[to] = v48;
                }
                if (first_column + column * 4 + 0 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 1) * stride2_3;
                    var v49: f32 = sum6_0.y;
                    if (panel > 0) { v49 = operand2[to] + sum6_0.y; }
                    operand2[to] = v49;
                }
                if (first_column + column * 4 + 0 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 2) * stride2_3;
                    var v50: f32 = sum6_0.z;
                    if (panel > 0) { v50 = operand2[to] + sum6_0.z; }
                    operand2[to] = v50;
                }
                if (first_column + column * 4 + 0 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 3) * stride2_3;
                    var v51: f32 = sum6_0.w;
                    if (panel > 0) { v51 = operand2[to] + sum6_0.w; }
                    operand2[to] = v51;
                }
                if (first_column + column * 4 + 64 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 0) * stride2_3;
                    var v52: f32 = sum6_1.x;
                    if (panel > 0) { v52 = operand2[to] + sum6_1.x; }
                    operand2[to] = v52;
                }
                if (first_column + column * 4 + 64 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 1) * stride2_3;
                    var v53: f32 = sum6_1.y;
                    if (panel > 0) { v53 = operand2[to] + sum6_1.y; }
                    operand2[to] = v53;
                }
                if (first_column + column * 4 + 64 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 2) * stride2_3;
                    var v54: f32 = sum6_1.z;
                    if (panel > 0) { v54 = operand2[to] + sum6_1.z; }
                    operand2[to] = v54;
                }
                if (first_column + column * 4 + 64 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 3) * stride2_3;
                    var v55: f32 = sum6_1.w;
                    if (panel > 0) { v55 = operand2[to] + sum6_1.w; }
                    operand2[to] = v55;
                }
            }
            if (first_row + row * 4 + 67 < size2) {
                let row_at: i32 = matrix2 + (first_row + row * 4 + 67) * stride2_2;
                if (first_column + column * 4 + 0 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 0) * stride2_3;
                    var v56: f32 = sum7_0.x;
                    if (panel > 0) { v56 = operand2[to] + sum7_0.x; }
                    operand2[to] = v56;
                }
                if (first_column + column * 4 + 0 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 1) * stride2_3;
                    var v57: f32 = sum7_0.y;
                    if (panel > 0) { v57 = operand2[to] + sum7_0.y; }
                    operand2[to] = v57;
                }
                if (first_column + column * 4 + 0 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 2) * stride2_3;
                    var v58: f32 = sum7_0.z;
                    if (panel > 0) { v58 = operand2[to] + sum7_0.z; }
                    operand2[to] = v58;
                }
                if (first_column + column * 4 + 0 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 0 + 3) * stride2_3;
                    var v59: f32 = sum7_0.w;
                    if (panel > 0) { v59 = operand2[to] + sum7_0.w; }
                    operand2[to] = v59;
                }
                if (first_column + column * 4 + 64 + 0 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 0) * stride2_3;
                    var v60: f32 = sum7_1.x;
                    if (panel > 0) { v60 = operand2[to] + sum7_1.x; }
                    operand2[to] = v60;
                }
                if (first_column + column * 4 + 64 + 1 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 1) * stride2_3;
                    var v61: f32 = sum7_1.y;
                    if (panel > 0) { v61 = operand2[to] + sum7_1.y; }
                    operand2[to] = v61;
                }
                if (first_column + column * 4 + 64 + 2 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 2) * stride2_3;
                    var v62: f32 = sum7_1.z;
                    if (panel > 0) { v62 = operand2[to] + sum7_1.z; }
                    operand2[to] = v62;
                }
                if (first_column + column * 4 + 64 + 3 < size3) {
                    let to: i32 = row_at + (first_column + column * 4 + 64 + 3) * stride2_3;
                    var v63: f32 = sum7_1.w;
                    if (panel > 0) { v63 = operand2[to] + sum7_1.w; }
                    operand2[to] = v63;
                }
            }
        }
    }
}
