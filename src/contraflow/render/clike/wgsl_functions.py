"""Functions in WGSL that texts of kernels call, by the mark that tells which texts do.

They may use `arguments`, the first uniform of every text (`wgsl.py`).
"""

from __future__ import annotations

FUNCTIONS = {
    "fail(": """\
fn fail(line: i32, index: i32) {
    loop {
        let tried = atomicCompareExchangeWeak(&failure.mark, 0, line + 1);
        if (tried.exchanged) { failure.index = index; }
        if (tried.exchanged || tried.old_value != 0) { break; }
    }
}
""",
    # i32() of what is out of range differs between machines.
    "truncated_i32(": """\
fn truncated_i32(x: f32) -> i32 {
    if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) { return 0; }
    if (x >= 2147483648.0) { return 2147483647; }
    if (x < -2147483648.0) { return i32(-2147483648); }
    return i32(x);
}
""",
    "truncated_u32(": """\
fn truncated_u32(x: f32) -> u32 {
    if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u || x < 0.0) { return 0u; }
    if (x >= 4294967296.0) { return 4294967295u; }
    return u32(x);
}
""",
    "difference_from_itself(": """\
fn difference_from_itself(x: f32) -> f32 {
    let finite = (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
    return bitcast<f32>(select(0x7fc00000u | arguments.zero, 0u, finite));
}
""",
    # The same number, of which a compiler does not know where it comes from.
    "hidden(": """\
fn hidden(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) | arguments.zero); }
""",
    # The exact remainder of numbers m * 2**e with whole m, by long division, 8 bits at a time: the
    # quotient may have 277 bits, and what WGSL's % subtracts is rounded.
    "remainder_f32(": """\
fn remainder_f32(x: f32, y: f32) -> f32 {
    let a = bitcast<u32>(x) & 0x7fffffffu;
    let b = bitcast<u32>(y) & 0x7fffffffu;
    if (a >= 0x7f800000u || b > 0x7f800000u || b == 0u) {
        return bitcast<f32>(0x7fc00000u | arguments.zero);
    }
    if (a < b) { return x; }
    let exponent = max(b >> 23u, 1u);
    let divisor = (b & 0x7fffffu) | select(0u, 0x800000u, b >= 0x800000u);
    var rest = ((a & 0x7fffffu) | select(0u, 0x800000u, a >= 0x800000u)) % divisor;
    var places = max(a >> 23u, 1u) - exponent;
    while (places > 0u && rest != 0u) {
        let taken = min(places, 8u);
        rest = (rest << taken) % divisor;
        places -= taken;
    }
    let shift = min(countLeadingZeros(rest | 1u) - 8u, exponent - 1u);
    let bits = ((exponent - 1u - shift) << 23u) + (rest << shift);
    return bitcast<f32>((bitcast<u32>(x) & 0x80000000u) | select(bits, 0u, rest == 0u));
}
""",
    # The nearest number that f16 has, ties to even: WGSL does not say how f16() rounds, and leaves
    # open what becomes of numbers beyond its range. Those below 2**-14 are multiples of 2**-24.
    "round_float16(": """\
fn round_float16(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) { return x; }
    if (magnitude >= 0x477ff000u) { return bitcast<f32>((bits & 0x80000000u) | 0x7f800000u); }
    if (magnitude < 0x38800000u) { return round(x * 16777216.0) * 5.9604644775390625e-8; }
    return bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u);
}
""",
}
