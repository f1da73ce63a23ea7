// Functions that every kernel may call, in the subset (kernel.h). The polynomials are those of the
// processor (backends/cpu/vec_math.h). Tests of NaN go by bits: drivers may take it that there are
// no NaN, and then x != x is false.
#include "backends/gpu/kernel.h"

namespace pippin::gpu {

// Rounds to the nearest even, keeps the small numbers below the smallest normal one.
const char* const kHalfSource = R"(
float f16_to_f32(uint h) {
    uint sign = (h & 0x8000u) << 16;
    uint e = (h >> 10) & 31u;
    uint m = h & 0x3ffu;
    uint normal = ((e + 112u) << 23) | (m << 13);
    uint special = 0x7f800000u | (m << 13);
    float small = float(m) * 5.9604644775390625e-8f;
    uint bits = e == 0u ? AS_UINT(small) : e == 31u ? special : normal;
    return AS_FLOAT(bits | sign);
}
uint f32_to_f16(float x) {
    uint bits = AS_UINT(x);
    uint sign = (bits >> 16) & 0x8000u;
    uint a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) return sign | 0x7e00u;
    if (a >= 0x47800000u) return sign | 0x7c00u;
    if (a < 0x38800000u) {
        // below the smallest normal: units of 2^-24, to the nearest even
        if (a < 0x33000000u) return sign;
        uint shift = 126u - (a >> 23);
        uint m = (a & 0x7fffffu) | 0x800000u;
        uint q = m >> shift;
        uint rest = m & ((1u << shift) - 1u);
        uint half_way = 1u << (shift - 1u);
        if (rest > half_way || (rest == half_way && (q & 1u) != 0u)) q = q + 1u;
        return sign | q;
    }
    uint rounded = a + 0xfffu + ((a >> 13) & 1u);
    return sign | ((rounded - 0x38000000u) >> 13);
}
uint pack_f16(float x, float y) { return f32_to_f16(x) | (f32_to_f16(y) << 16); }
)";

const char* const kMathSource = R"(
bool is_nan(float x) { return (AS_UINT(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_finite(float x) { return (AS_UINT(x) & 0x7fffffffu) < 0x7f800000u; }
bool is_negative(float x) { return AS_UINT(x) > 0x80000000u && AS_UINT(x) <= 0xff800000u; }
bool is_less(float a, float b) { return !is_nan(a) && !is_nan(b) && a < b; }
bool is_at_most(float a, float b) { return !is_nan(a) && !is_nan(b) && a <= b; }
float max_nan(float a, float b) { return is_nan(a) ? a : is_nan(b) ? b : a > b ? a : b; }
float min_nan(float a, float b) { return is_nan(a) ? a : is_nan(b) ? b : a < b ? a : b; }
float m_relu(float x) { return is_negative(x) ? 0.0f : x; }
float m_abs(float x) { return AS_FLOAT(AS_UINT(x) & 0x7fffffffu); }
float m_neg(float x) { return AS_FLOAT(AS_UINT(x) ^ 0x80000000u); }
float copy_sign(float x, float s) {
    return AS_FLOAT((AS_UINT(x) & 0x7fffffffu) | (AS_UINT(s) & 0x80000000u));
}
float m_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }

// --- half types are 16 bits in memory and floats in registers; float16's functions are below ---

float bf16_to_f32(uint h) { return AS_FLOAT(h << 16); }
F4 quad_f16(I64 x) {
    uint a = uint(x);
    uint b = uint(x >> 32);
    return MAKE_F4(f16_to_f32(a & 0xffffu), f16_to_f32(a >> 16), f16_to_f32(b & 0xffffu),
                   f16_to_f32(b >> 16));
}
F4 quad_bf16(I64 x) {
    uint a = uint(x);
    uint b = uint(x >> 32);
    return MAKE_F4(AS_FLOAT(a << 16), AS_FLOAT(a & 0xffff0000u), AS_FLOAT(b << 16),
                   AS_FLOAT(b & 0xffff0000u));
}
uint f32_to_bf16(float x) {
    uint bits = AS_UINT(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

// --- conversions: out of range to the nearest, NaN to 0 ---

int f2i(float x) {
    if (is_nan(x)) return 0;
    if (x <= -2147483648.0f) return int(0x80000000u);
    if (x >= 2147483648.0f) return 0x7fffffff;
    return int(x);
}
I64 f2l(float x) {
    if (is_nan(x)) return I64(0);
    if (x <= -9223372036854775808.0f) return I64_BITS(0x80000000u, 0u);
    if (x >= 9223372036854775808.0f) return I64_BITS(0x7fffffffu, 0xffffffffu);
    uint a = AS_UINT(x) & 0x7fffffffu;
    int e = int(a >> 23) - 150;
    I64 m = I64((a & 0x7fffffu) | 0x800000u);
    I64 r = e >= 0 ? m << e : e > -24 ? m >> (-e) : I64(0);
    return x < 0.0f ? -r : r;
}

// --- elementary functions ---

float two_to(int n) { return AS_FLOAT(uint(n + 127) << 23); }

float exp_within(float y) {
    float n = floor(FMA(y, 1.44269504f, 0.5f));
    int whole = int(n);
    EXACT float r = y - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = FMA(r, 1.9875691500e-4f, 1.3981999507e-3f);
    p = FMA(p, r, 8.3334519073e-3f);
    p = FMA(p, r, 4.1665795894e-2f);
    p = FMA(p, r, 1.6666665459e-1f);
    p = FMA(p, r, 5.0000001201e-1f);
    float q = FMA(r * r, p, r) + 1.0f;
    int part = whole >> 1;
    return q * two_to(part) * two_to(whole - part);
}
float m_exp(float x) {
    float y = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
    return is_nan(x) ? x : exp_within(y);
}
float m_log(float x) {
    uint bits = AS_UINT(x);
    if (bits == 0u || bits == 0x80000000u) return AS_FLOAT(0xff800000u);
    if (is_nan(x) || bits == 0x7f800000u) return x;
    if (bits > 0x80000000u) return AS_FLOAT(0x7fc00000u);
    float e = 0.0f;
    if (bits < 0x00800000u) {
        bits = AS_UINT(float(bits));
        e = -149.0f;
    }
    uint moved = bits - 0x3F3504F3u;
    float m = AS_FLOAT((moved & 0x007FFFFFu) + 0x3F3504F3u);
    e = e + float(int(moved) >> 23);
    float f = m - 1.0f;
    float z = f * f;
    float y = FMA(f, 7.0376836292e-2f, -1.1514610310e-1f);
    y = FMA(y, f, 1.1676998740e-1f);
    y = FMA(y, f, -1.2420140846e-1f);
    y = FMA(y, f, 1.4249322787e-1f);
    y = FMA(y, f, -1.6668057665e-1f);
    y = FMA(y, f, 2.0000714765e-1f);
    y = FMA(y, f, -2.4999993993e-1f);
    y = FMA(y, f, 3.3333331174e-1f);
    y = y * f * z;
    y = FMA(e, -2.12194440e-4f, y);
    y = FMA(-0.5f, z, y);
    return FMA(e, 0.693359375f, f + y);
}
float m_tanh(float x) {
    float y = x > 9.0f ? 9.0f : x < -9.0f ? -9.0f : x;
    float z = y * y;
    float p = FMA(z, 1.34196909e-08f, 2.06611664e-05f);
    p = FMA(p, z, 0.00349899026f);
    p = FMA(p, z, 0.133839754f);
    p = FMA(p, z, 1.0f);
    float q = FMA(z, 7.80467513e-07f, 0.000329102882f);
    q = FMA(q, z, 0.0258901843f);
    q = FMA(q, z, 0.467172969f);
    q = FMA(q, z, 1.0f);
    float t = y * p / q;
    t = t > 1.0f ? 1.0f : t < -1.0f ? -1.0f : t;
    return is_nan(x) ? x : t;
}
float m_erf(float x) {
    float z = x * x;
    float t = m_abs(x);
    t = t > 3.95f ? 3.95f : t;
    float l = FMA(t, 0.00021415381f, -0.00321645113f);
    l = FMA(l, t, 0.0228951241f);
    l = FMA(l, t, -0.105270504f);
    l = FMA(l, t, -0.635711248f);
    l = FMA(l, t, -0.128516602f);
    float far_off = copy_sign(1.0f - exp_within(t * l - t), x);
    float s = FMA(z, -0.00059994194f, 0.00499483346f);
    s = FMA(s, z, -0.0267677226f);
    s = FMA(s, z, 0.112818461f);
    s = FMA(s, z, -0.376124965f);
    s = FMA(s, z, 0.12837915f);
    float inner = FMA(x, s, x);
    return is_nan(x) ? x : m_abs(x) < 0.92f ? inner : far_off;
}
float m_rsqrt(float x) {
    EXACT float r = 1.0f / sqrt(x);
    return r;
}
float m_sigmoid(float x) {
    float e = m_exp(AS_FLOAT(AS_UINT(x) | 0x80000000u));
    float top = x < 0.0f ? e : 1.0f;
    return is_nan(x) ? x : top / (1.0f + e);
}

// The bits of 2 / pi after the point, for the reduction of large angles (Payne and Hanek 1983).
uint two_over_pi(int word) {
    return word == 0   ? 0xA2F9836Eu
           : word == 1 ? 0x4E441529u
           : word == 2 ? 0xFC2757D1u
           : word == 3 ? 0xF534DDC0u
           : word == 4 ? 0xDB629599u
           : word == 5 ? 0x3C439041u
                       : 0xFE5163ABu;
}
// |x| as quarter * pi / 2 + the returned float * 2^0 in (-pi/4, pi/4); the quarter goes into the
// lowest bits of a uint in the second function.
uint large_word(uint m, int e, int k) {
    // 32 bits of 2/pi from bit e + 32 k on, where bit 0 is the first after the point
    int at = e + 32 * k;
    if (at <= -32) return 0u;
    int w = at >> 5;
    int s = at & 31;
    uint hi = w < 0 ? 0u : two_over_pi(w);
    uint lo = w + 1 < 0 ? 0u : two_over_pi(w + 1);
    return s == 0 ? hi : (hi << s) | (lo >> (32 - s));
}
float sin_quarter(float x, uint quarter) {
    float r;
    uint n;
    uint a = AS_UINT(x) & 0x7fffffffu;
    if (a >= 0x7f800000u) return AS_FLOAT(0x7fc00000u);
    if (a < 0x46000000u) {
        // pi / 2 in parts so short that t times a part is exact (Cody and Waite 1980; Cephes)
        float t = floor(FMA(x, 0.636619772f, 0.5f));
        n = uint(int(t));
        EXACT float s1 = x - t * 1.5703125f;
        EXACT float s2 = s1 - t * 4.837512969970703125e-4f;
        EXACT float s3 = s2 - t * 7.54978995489188e-8f;
        r = s3;
    } else {
        // x = m 2^e: of m * (2/pi) 2^e, the two bits before the point and those behind
        uint m = (a & 0x7fffffu) | 0x800000u;
        int e = int(a >> 23) - 150;
        int from = e - 2;
        uint w0 = large_word(m, from, 0);
        uint w1 = large_word(m, from, 1);
        uint w2 = large_word(m, from, 2);
        // low 96 bits of m * w; those above are whole turns
        uint p2 = m * w2;
        uint c2 = MULHI(m, w2);
        uint p1 = m * w1;
        uint c1 = MULHI(m, w1);
        uint s1 = p1 + c2;
        uint carry = s1 < p1 ? 1u : 0u;
        uint s0 = m * w0 + c1 + carry;
        n = s0 >> 30;
        uint f0 = (s0 << 2) | (s1 >> 30);
        uint f1 = (s1 << 2) | (p2 >> 30);
        bool over = (f0 & 0x80000000u) != 0u;
        if (over) {
            n = n + 1u;
            f1 = ~f1;
            f0 = ~f0;
            f1 = f1 + 1u;
            if (f1 == 0u) f0 = f0 + 1u;
        }
        // leading zeros of a small fraction would cost digits
        int lost = 0;
        ROLL for (int k = 0; k < 40; k++) {
            if ((f0 & 0x80000000u) != 0u || (f0 | f1) == 0u) break;
            f0 = (f0 << 1) | (f1 >> 31);
            f1 = f1 << 1;
            lost = lost + 1;
        }
        r = float(f0 >> 8) * 5.9604644775390625e-8f * two_to(-lost) * 1.57079633f;
        if (over) r = -r;
        if (x < 0.0f) {
            r = -r;
            n = 0u - n;
        }
    }
    n = n + quarter;
    float z = r * r;
    float s = FMA(z, -1.9515295891e-4f, 8.3321608736e-3f);
    s = FMA(s, z, -1.6666654611e-1f);
    s = FMA(r * z, s, r);
    float c = FMA(z, 2.443315711809948e-5f, -1.388731625493765e-3f);
    c = FMA(c, z, 4.166664568298827e-2f);
    c = FMA(z * z, c, FMA(-0.5f, z, 1.0f));
    float result = (n & 1u) != 0u ? c : s;
    return AS_FLOAT(AS_UINT(result) ^ ((n & 2u) << 30));
}
float m_sin(float x) { return sin_quarter(x, 0u); }
float m_cos(float x) { return sin_quarter(x, 1u); }

// What a * b lost when it was rounded (Dekker 1971): a device's FMA may round twice.
float product_error(float a, float b, float product) {
    float ah = AS_FLOAT(AS_UINT(a) & 0xfffff000u);
    float bh = AS_FLOAT(AS_UINT(b) & 0xfffff000u);
    EXACT float al = a - ah;
    EXACT float bl = b - bh;
    EXACT float lost = ((ah * bh - product) + ah * bl + al * bh) + al * bl;
    return lost;
}

// The logarithm in two floats, times y, so that large powers keep their digits.
float m_pow(float x, float y) {
    uint xb = AS_UINT(x);
    uint yb = AS_UINT(y);
    uint xa = xb & 0x7fffffffu;
    uint ya = yb & 0x7fffffffu;
    if (ya == 0u || xb == 0x3f800000u) return 1.0f;
    if (xa > 0x7f800000u) return x;
    if (ya > 0x7f800000u) return y;
    bool whole = ya >= 0x4b000000u || floor(y) == y;
    bool odd = whole && ya < 0x4b800000u && (uint(int(m_abs(y))) & 1u) != 0u;
    bool up = (yb >> 31) == 0u;
    if (ya == 0x7f800000u) {
        if (xa == 0x3f800000u) return 1.0f;
        return (xa > 0x3f800000u) == up ? AS_FLOAT(0x7f800000u) : 0.0f;
    }
    if (xa == 0u || xa == 0x7f800000u) {
        uint bits = (xa == 0u) == up ? 0u : 0x7f800000u;
        if (odd) bits = bits | (xb & 0x80000000u);
        return AS_FLOAT(bits);
    }
    bool negative = (xb >> 31) != 0u;
    if (negative && !whole) return AS_FLOAT(0x7fc00000u);
    float e = 0.0f;
    uint bits = xa;
    if (bits < 0x00800000u) {
        bits = AS_UINT(float(bits));
        e = -149.0f;
    }
    uint moved = bits - 0x3F3504F3u;
    float m = AS_FLOAT((moved & 0x007FFFFFu) + 0x3F3504F3u);
    e = e + float(int(moved) >> 23);
    float above = m - 1.0f;
    float below = m + 1.0f;
    EXACT float below_rest = m - (below - 1.0f);
    float h = above / below;
    EXACT float hb = h * below;
    EXACT float rest = (above - hb) - product_error(h, below, hb);
    rest = rest - h * below_rest;
    float h_rest = rest / below;
    float s = h * h;
    float q = FMA(s, 0.15384615f, 0.18181818f);
    q = FMA(q, s, 0.22222222f);
    q = FMA(q, s, 0.28571429f);
    q = FMA(q, s, 0.4f);
    q = FMA(q, s, 0.66666667f);
    float high = 2.0f * h;
    float low = FMA(h * s, q, 2.0f * h_rest);
    float big = e * 0.693359375f;
    EXACT float sum = big + high;
    EXACT float back = sum - big;
    EXACT float sum_lost = (big - (sum - back)) + (high - back);
    low = FMA(e, -2.12194440e-4f, low + sum_lost);
    EXACT float head = sum + low;
    EXACT float tail = low - (head - sum);
    EXACT float t = y * head;
    float t_rest = FMA(y, tail, product_error(y, head, t));
    if (!(m_abs(t) < 200.0f)) {
        t = copy_sign(200.0f, t);
        t_rest = 0.0f;
    }
    float r = m_exp(t);
    if (is_finite(r)) r = FMA(r, t_rest, r);
    return negative && odd ? -r : r;
}
float m_remainder(float x, float y) {
    if (!is_finite(x) || is_nan(y) || (AS_UINT(y) & 0x7fffffffu) == 0u)
        return AS_FLOAT(0x7fc00000u);
    float b = m_abs(y);
    float r = m_abs(x);
    if (is_finite(b) && r >= b) {
        // by doublings of b, exactly; at most 280 of them
        int shift = int(AS_UINT(r) >> 23) - int(AS_UINT(b) >> 23);
        if (AS_UINT(b) < 0x00800000u) shift = shift + 23;
        ROLL for (int k = shift; k >= 0; k--) {
            float c = b * two_to(k >> 1) * two_to(k - (k >> 1));
            if (r >= c) r = r - c;
        }
    }
    if ((AS_UINT(x) >> 31) != 0u) r = -r;
    if (r != 0.0f && ((r < 0.0f) != (y < 0.0f))) r = r + y;
    return r;
}

// --- integers ---

int div_i(int a, int b) { return b == 0 ? 0 : b == -1 ? int(0u - uint(a)) : a / b; }
int rem_i(int a, int b) {
    if (b == 0 || b == -1) return 0;
    int r = a - (a / b) * b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int pow_i(int a, int b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0;
    int r = 1;
    ROLL for (int k = 0; k < 31; k++) {
        if (b == 0) break;
        if ((b & 1) != 0) r = r * a;
        a = a * a;
        b = b >> 1;
    }
    return r;
}
I64 div_l(I64 a, I64 b) { return b == I64(0) ? I64(0) : b == I64(-1) ? -a : a / b; }
I64 rem_l(I64 a, I64 b) {
    if (b == I64(0) || b == I64(-1)) return I64(0);
    I64 r = a - (a / b) * b;
    return r != I64(0) && (r < I64(0)) != (b < I64(0)) ? r + b : r;
}
I64 pow_l(I64 a, I64 b) {
    if (b < I64(0)) return a == I64(1) ? I64(1) : a == I64(-1) ? ((b & I64(1)) != I64(0) ? I64(-1) : I64(1)) : I64(0);
    I64 r = I64(1);
    ROLL for (int k = 0; k < 63; k++) {
        if (b == I64(0)) break;
        if ((b & I64(1)) != I64(0)) r = r * a;
        a = a * a;
        b = b >> 1;
    }
    return r;
}

// --- random numbers: Philox 4x32-10 (Salmon et al. 2011), the four words of a block ---

U4 philox(I64 key, I64 stream, I64 block) {
    uint c0 = uint(block);
    uint c1 = uint(block >> 32) & 0x3fffffffu;
    uint c2 = uint(stream);
    uint c3 = uint(stream >> 32);
    uint k0 = uint(key);
    uint k1 = uint(key >> 32);
    UNROLL for (int turn = 0; turn < 10; turn++) {
        uint h0 = MULHI(0xD2511F53u, c0);
        uint l0 = 0xD2511F53u * c0;
        uint h1 = MULHI(0xCD9E8D57u, c2);
        uint l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 = k0 + 0x9E3779B9u;
        k1 = k1 + 0xBB67AE85u;
    }
    return MAKE_U4(c0, c1, c2, c3);
}
uint random_word(I64 key, I64 stream, I64 at) {
    U4 four = philox(key, stream, at >> 2);
    uint w = uint(at) & 3u;
    return w == 0u ? four.x : w == 1u ? four.y : w == 2u ? four.z : four.w;
}
)";

}  // namespace pippin::gpu
