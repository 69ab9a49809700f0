struct Arguments { zero: u32, size0: i32, size1: i32, offset0: i32, offset1: i32, stride0_1: i32, stride1_1: i32 }
@group(0) @binding(0) var<uniform> arguments: Arguments;
struct Scalars { scalar2: i32 }
@group(0) @binding(1) var<uniform> scalars: Scalars;
@group(0) @binding(2) var<storage, read> operand0: array<f32>;
@group(0) @binding(3) var<storage, read_write> operand1: array<i32>;
var<workgroup> keys: array<i32, 1024>;
var<workgroup> positions: array<i32, 1024>;

@compute @workgroup_size(256)
fn sort_71b561402bb1(
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
    let stride0_1: i32 = arguments.stride0_1;
    let stride1_1: i32 = arguments.stride1_1;
    let scalar2: i32 = scalars.scalar2;
    let points: i32 = size0;
    for (var point: i32 = group; point < points; point += groups) {
        let i0: i32 = point;
        let count: i32 = size1;
        var width: i32 = 1;
        while (width < count) {
            width = width * 2;
        }
        for (var element: i32 = thread; element < width; element += threads) {
            var key: i32 = 2147483647i;
            if (element < count) {
                let i1: i32 = element;
                let v0: f32 = operand0[offset0 + i0 + i1 * stride0_1];
                let v1: bool = (bitcast<u32>(v0) & 0x7fffffffu) > 0x7f800000u;
                let v2: i32 = bitcast<i32>(v0);
                let v3: bool = v2 < 0i;
                let v4: i32 = i32(-2147483648) - v2;
                let v5: i32 = select(v2, v4, v3);
                let v6: i32 = select(v5, 2147483647i, v1);
                let v7: i32 = v6 ^ (-1i);
                key = v7;
            }
            keys[element] = key;
            positions[element] = element;
        }
        workgroupBarrier();
        for (var run: i32 = 2; run <= width; run = run * 2) {
            for (var reach: i32 = run / 2; reach > 0; reach = reach / 2) {
                for (var pair: i32 = thread; pair < width / 2; pair += threads) {
                    let low: i32 = 2 * pair - (pair & (reach - 1));
                    let high: i32 = low + reach;
                    let v8: i32 = keys[low];
                    let v9: i32 = keys[high];
                    let v10: i32 = positions[low];
                    let v11: i32 = positions[high];
                    let v12: bool = v8 > v9 || (v8 == v9 && v10 > v11);
                    let v13: bool = (low & run) == 0;
                    if (v12 == v13) {
                        keys[low] = v9;
                        keys[high] = v8;
                        positions[low] = v11;
                        positions[high] = v10;
                    }
                }
                workgroupBarrier();
            }
        }
        for (var element: i32 = thread; element < count; element += threads) {
            let i1: i32 = element;
            let v14: i32 = positions[element];
            let v15: i32 = v14;
            if (element < scalar2) { operand1[offset1 + i0 + i1 * stride1_1] = v15; }
        }
        workgroupBarrier();
    }
}
