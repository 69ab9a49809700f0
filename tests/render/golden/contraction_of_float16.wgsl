enable f16;
struct Arguments { zero: u32, size0: i32, size1: i32, size2: i32, size3: i32, size4: i32, offset0: i32, offset1: i32, offset2: i32, stride0_0: i32, stride0_1: i32, stride0_2: i32, stride0_3: i32, stride1_0: i32, stride1_1: i32, stride1_2: i32, stride1_3: i32, stride2_0: i32, stride2_1: i32, stride2_2: i32, stride2_3: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
@group(0) @binding(2) var<storage, read> operand0: array<f16>;
@group(0) @binding(3) var<storage, read> operand1: array<f16>;
@group(0) @binding(4) var<storage, read_write> operand2: array<f16>;
var<workgroup> a_tile: array<f32, 1040>;
var<workgroup> b_tile: array<f32, 1024>;

fn round_float16(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) { return x; }
    if (magnitude >= 0x477ff000u) { return bitcast<f32>((bits & 0x80000000u) | 0x7f800000u); }
    if (magnitude < 0x38800000u) { return round(x * 16777216.0) * 5.9604644775390625e-8; }
    return bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u);
}

@compute @workgroup_size(256)
fn contraction_float16_float32(
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
    let row: i32 = thread / 16;
    let column: i32 = thread % 16;
    for (var tile: i32 = group; tile < tiles; tile += groups) {
        let batch: i32 = tile / (row_tiles * column_tiles);
        let batch0: i32 = batch / size1;
        let batch1: i32 = batch % size1;
        let first_row: i32 = tile / column_tiles % row_tiles * 64;
        let first_column: i32 = tile % column_tiles * 64;
        var sum0_0: f32 = 0.0f;
        var sum0_1: f32 = 0.0f;
        var sum0_2: f32 = 0.0f;
        var sum0_3: f32 = 0.0f;
        var sum1_0: f32 = 0.0f;
        var sum1_1: f32 = 0.0f;
        var sum1_2: f32 = 0.0f;
        var sum1_3: f32 = 0.0f;
        var sum2_0: f32 = 0.0f;
        var sum2_1: f32 = 0.0f;
        var sum2_2: f32 = 0.0f;
        var sum2_3: f32 = 0.0f;
        var sum3_0: f32 = 0.0f;
        var sum3_1: f32 = 0.0f;
        var sum3_2: f32 = 0.0f;
        var sum3_3: f32 = 0.0f;
        for (var panel: i32 = 0; panel < size4; panel += 256) {
            var part0_0: f32 = 0.0f;
            var part0_1: f32 = 0.0f;
            var part0_2: f32 = 0.0f;
            var part0_3: f32 = 0.0f;
            var part1_0: f32 = 0.0f;
            var part1_1: f32 = 0.0f;
            var part1_2: f32 = 0.0f;
            var part1_3: f32 = 0.0f;
            var part2_0: f32 = 0.0f;
            var part2_1: f32 = 0.0f;
            var part2_2: f32 = 0.0f;
            var part2_3: f32 = 0.0f;
            var part3_0: f32 = 0.0f;
            var part3_1: f32 = 0.0f;
            var part3_2: f32 = 0.0f;
            var part3_3: f32 = 0.0f;
            let end: i32 = min(panel + 256, size4);
            for (var start: i32 = panel; start < end; start += 16) {
                for (var at: i32 = thread; at < 1024; at += threads) {
                    let free: i32 = at / 16;
                    let deep: i32 = at % 16;
                    var v0: f32 = 0.0f;
                    if (first_row + free < size2 && start + deep < size4) { v0 = f32(operand0[offset0 + batch0 * stride0_0 + batch1 * stride0_1 + (first_row + free) * stride0_2 + (start + deep) * stride0_3]); }
                    a_tile[deep * 65 + free] = v0;
                }
                for (var at: i32 = thread; at < 1024; at += threads) {
                    let free: i32 = at % 64;
                    let deep: i32 = at / 64;
                    var v1: f32 = 0.0f;
                    if (first_column + free < size3 && start + deep < size4) { v1 = f32(operand1[offset1 + batch0 * stride1_0 + batch1 * stride1_1 + (first_column + free) * stride1_3 + (start + deep) * stride1_2]); }
                    b_tile[deep * 64 + free] = v1;
                }
                workgroupBarrier();
                for (var k: i32 = 0; k < 16; k += 1) {
                    let a0: f32 = a_tile[k * 65 + row];
                    let b0: f32 = b_tile[k * 64 + column];
                    let a1: f32 = a_tile[k * 65 + row + 16];
                    let b1: f32 = b_tile[k * 64 + column + 16];
                    let a2: f32 = a_tile[k * 65 + row + 32];
                    let b2: f32 = b_tile[k * 64 + column + 32];
                    let a3: f32 = a_tile[k * 65 + row + 48];
                    let b3: f32 = b_tile[k * 64 + column + 48];
                    part0_0 = fma(a0, b0, part0_0);
                    part0_1 = fma(a0, b1, part0_1);
                    part0_2 = fma(a0, b2, part0_2);
                    part0_3 = fma(a0, b3, part0_3);
                    part1_0 = fma(a1, b0, part1_0);
                    part1_1 = fma(a1, b1, part1_1);
                    part1_2 = fma(a1, b2, part1_2);
                    part1_3 = fma(a1, b3, part1_3);
                    part2_0 = fma(a2, b0, part2_0);
                    part2_1 = fma(a2, b1, part2_1);
                    part2_2 = fma(a2, b2, part2_2);
                    part2_3 = fma(a2, b3, part2_3);
                    part3_0 = fma(a3, b0, part3_0);
                    part3_1 = fma(a3, b1, part3_1);
                    part3_2 = fma(a3, b2, part3_2);
                    part3_3 = fma(a3, b3, part3_3);
                }
                workgroupBarrier();
            }
            sum0_0 = sum0_0 + part0_0;
            sum0_1 = sum0_1 + part0_1;
            sum0_2 = sum0_2 + part0_2;
            sum0_3 = sum0_3 + part0_3;
            sum1_0 = sum1_0 + part1_0;
            sum1_1 = sum1_1 + part1_1;
            sum1_2 = sum1_2 + part1_2;
            sum1_3 = sum1_3 + part1_3;
            sum2_0 = sum2_0 + part2_0;
            sum2_1 = sum2_1 + part2_1;
            sum2_2 = sum2_2 + part2_2;
            sum2_3 = sum2_3 + part2_3;
            sum3_0 = sum3_0 + part3_0;
            sum3_1 = sum3_1 + part3_1;
            sum3_2 = sum3_2 + part3_2;
            sum3_3 = sum3_3 + part3_3;
        }
        let row0: i32 = first_row + row;
        let column0: i32 = first_column + column;
        let row1: i32 = first_row + row + 16;
        let column1: i32 = first_column + column + 16;
        let row2: i32 = first_row + row + 32;
        let column2: i32 = first_column + column + 32;
        let row3: i32 = first_row + row + 48;
        let column3: i32 = first_column + column + 48;
        if (row0 < size2 && column0 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row0 * stride2_2 + column0 * stride2_3] = f16(round_float16(sum0_0));
        }
        if (row0 < size2 && column1 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row0 * stride2_2 + column1 * stride2_3] = f16(round_float16(sum0_1));
        }
        if (row0 < size2 && column2 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row0 * stride2_2 + column2 * stride2_3] = f16(round_float16(sum0_2));
        }
        if (row0 < size2 && column3 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row0 * stride2_2 + column3 * stride2_3] = f16(round_float16(sum0_3));
        }
        if (row1 < size2 && column0 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row1 * stride2_2 + column0 * stride2_3] = f16(round_float16(sum1_0));
        }
        if (row1 < size2 && column1 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row1 * stride2_2 + column1 * stride2_3] = f16(round_float16(sum1_1));
        }
        if (row1 < size2 && column2 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row1 * stride2_2 + column2 * stride2_3] = f16(round_float16(sum1_2));
        }
        if (row1 < size2 && column3 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row1 * stride2_2 + column3 * stride2_3] = f16(round_float16(sum1_3));
        }
        if (row2 < size2 && column0 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row2 * stride2_2 + column0 * stride2_3] = f16(round_float16(sum2_0));
        }
        if (row2 < size2 && column1 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row2 * stride2_2 + column1 * stride2_3] = f16(round_float16(sum2_1));
        }
        if (row2 < size2 && column2 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row2 * stride2_2 + column2 * stride2_3] = f16(round_float16(sum2_2));
        }
        if (row2 < size2 && column3 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row2 * stride2_2 + column3 * stride2_3] = f16(round_float16(sum2_3));
        }
        if (row3 < size2 && column0 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row3 * stride2_2 + column0 * stride2_3] = f16(round_float16(sum3_0));
        }
        if (row3 < size2 && column1 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row3 * stride2_2 + column1 * stride2_3] = f16(round_float16(sum3_1));
        }
        if (row3 < size2 && column2 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row3 * stride2_2 + column2 * stride2_3] = f16(round_float16(sum3_2));
        }
        if (row3 < size2 && column3 < size3) {
            operand2[offset2 + batch0 * stride2_0 + batch1 * stride2_1 + row3 * stride2_2 + column3 * stride2_3] = f16(round_float16(sum3_3));
        }
    }
}
