package gen

// OpenCL is the text before kernels that makes them OpenCL C 1.2.
const OpenCL = `#pragma OPENCL FP_CONTRACT OFF
#define KERNEL __kernel
#define FUNCTION static
#define GLOBAL __global
#define SHARED __local
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define UNROLL _Pragma("unroll")
#define LANE ((i64)get_local_id(0))
#define LANES ((i64)get_local_size(0))
#define GROUP ((i64)get_group_id(0))
#define ITEM ((i64)get_global_id(0))
#define FMA(a, b, c) fma(a, b, c)
#define SQRT(x) sqrt(x)
#define AS_INT(x) as_int(x)
#define AS_FLOAT(x) as_float(x)
typedef uchar u8; typedef ushort u16; typedef int i32; typedef uint u32; typedef long i64; typedef ulong u64; typedef float f32;
` + functions

// CUDA is the text before kernels that makes them CUDA C. The compiler must be told
// not to contract products and sums (-fmad=false, -ffp-contract=off).
const CUDA = `#define KERNEL extern "C" __global__
#define FUNCTION static __device__
#define GLOBAL
#define SHARED __shared__
#define BARRIER __syncthreads()
#define UNROLL _Pragma("unroll")
#define LANE ((i64)threadIdx.x)
#define LANES ((i64)blockDim.x)
#define GROUP ((i64)blockIdx.x)
#define ITEM ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define FMA(a, b, c) __fmaf_rn(a, b, c)
#define SQRT(x) __fsqrt_rn(x)
#define AS_INT(x) __float_as_int(x)
#define AS_FLOAT(x) __int_as_float(x)
typedef unsigned char u8; typedef unsigned short u16; typedef int i32; typedef unsigned u32; typedef long long i64; typedef unsigned long long u64; typedef float f32;
` + functions

// functions are those that kernels use, in both languages. Their results are the
// same to the bit wherever additions, products and fused multiply-adds are rounded
// correctly.
const functions = `
/* FAIL stops this kernel's program */
#define FAIL STATUS[0] = (i32)SITE
/* LARGER is the larger one; NaN is larger than all */
#define LARGER(a, b) ((a) != (a) ? (a) : (b) > (a) || (b) != (b) ? (b) : (a))
/* ADD adds x to s, and to c what rounding took from it */
#define ADD(x) { f32 x_ = (x), t_ = s + x_, b_ = t_ - s; c += (s - (t_ - b_)) + (x_ - b_); s = t_; }
#define NAN_F AS_FLOAT(0x7fc00000)
#define INF_F AS_FLOAT(0x7f800000)
FUNCTION f32 pick(i32 c, f32 a, f32 b) { return c ? a : b; }
FUNCTION i32 finite_f(f32 x) { return (AS_INT(x) & 0x7f800000) != 0x7f800000; }
/* 2^n for n from -126 to 127 */
FUNCTION f32 pow2(i32 n) { return AS_FLOAT((n + 127) << 23); }
/* exp: Cody and Waite's reduction by ln 2, then a polynomial of degree 6 */
FUNCTION f32 exp_f(f32 x) {
	if (x != x) return x;
	if (x > 88.72284f) return INF_F;
	if (x < -103.97208f) return 0.0f;
	f32 n = FMA(x, 1.44269504f, 12582912.0f) - 12582912.0f;
	f32 r = FMA(n, -0.693359375f, x);
	r = FMA(n, 2.12194440e-4f, r);
	f32 p = FMA(r, 1.9875691500e-4f, 1.3981999507e-3f);
	p = FMA(p, r, 8.3334519073e-3f);
	p = FMA(p, r, 4.1665795894e-2f);
	p = FMA(p, r, 1.6666665459e-1f);
	p = FMA(p, r, 5.0000001201e-1f);
	p = FMA(p * r, r, r) + 1.0f;
	i32 k = (i32)n, low = k / 2;
	return p * pow2(low) * pow2(k - low);
}
/* 1 - e^(t l), for a whole number t and l below 0 in two parts */
FUNCTION f32 lacking_f(f32 t, f32 high, f32 low) {
	f32 x = FMA(t, high, t * low);
	if (x < -0.35f) return 1.0f - exp_f(x);
	f32 p = FMA(x, 1.98412698e-4f, 1.38888889e-3f);
	p = FMA(p, x, 8.33333333e-3f);
	p = FMA(p, x, 4.16666667e-2f);
	p = FMA(p, x, 0.166666667f);
	p = FMA(p, x, 0.5f);
	return -FMA(p * x, x, x);
}
/* log: Cephes' polynomial on [sqrt(1/2), sqrt(2)) */
FUNCTION f32 log_f(f32 x) {
	if (x != x || x < 0.0f) return NAN_F;
	if (x == 0.0f) return -INF_F;
	if (x == INF_F) return x;
	i32 e = 0;
	if (x < 1.17549435e-38f) { x = x * 8388608.0f; e = -23; }
	i32 b = AS_INT(x);
	e += (b >> 23) - 126;
	f32 m = AS_FLOAT((b & 0x007fffff) | 0x3f000000);
	if (m < 0.707106781186547524f) { e -= 1; m = m + m - 1.0f; } else { m = m - 1.0f; }
	f32 z = m * m;
	f32 p = FMA(m, 7.0376836292e-2f, -1.1514610310e-1f);
	p = FMA(p, m, 1.1676998740e-1f);
	p = FMA(p, m, -1.2420140846e-1f);
	p = FMA(p, m, 1.4249322787e-1f);
	p = FMA(p, m, -1.6668057665e-1f);
	p = FMA(p, m, 2.0000714765e-1f);
	p = FMA(p, m, -2.4999993993e-1f);
	p = FMA(p, m, 3.3333331174e-1f);
	p = p * m * z;
	f32 fe = (f32)e;
	p = FMA(fe, -2.12194440e-4f, p);
	p = FMA(z, -0.5f, p);
	return FMA(fe, 0.693359375f, m + p);
}
FUNCTION f32 tanh_f(f32 x) {
	f32 a = x < 0.0f ? -x : x;
	if (a < 0.625f) {
		f32 z = x * x;
		f32 p = FMA(z, -5.70498872745e-3f, 2.06390887954e-2f);
		p = FMA(p, z, -5.37397155531e-2f);
		p = FMA(p, z, 1.33314422036e-1f);
		p = FMA(p, z, -3.33332819422e-1f);
		return FMA(p * z, x, x);
	}
	if (a > 9.1f) return x < 0.0f ? -1.0f : 1.0f;
	f32 y = 1.0f - 2.0f / (exp_f(a + a) + 1.0f);
	return x < 0.0f ? -y : x != x ? x : y;
}
FUNCTION f32 sigmoid_f(f32 x) { return 1.0f / (1.0f + exp_f(-x)); }
FUNCTION f32 silu_slope(f32 x) { f32 s = sigmoid_f(x); return s * FMA(x, 1.0f - s, 1.0f); }
FUNCTION f32 gelu_tanh_slope(f32 x) {
	f32 t = tanh_f(0.7978845608f * FMA(0.044715f * x * x, x, x));
	return 0.5f * (1.0f + t) + 0.5f * x * FMA(-t, t, 1.0f) * 0.7978845608f * FMA(0.134145f * x, x, 1.0f);
}
/* cos(pi x) for x from 0 to 1: Taylor's polynomials of sine and cosine */
FUNCTION f32 cospi_f(f32 x) {
	f32 h = 3.14159265f * (0.5f - x), z = h * h;
	f32 p = FMA(z, -2.50521084e-8f, 2.75573192e-6f);
	p = FMA(p, z, -1.98412698e-4f);
	p = FMA(p, z, 8.33333333e-3f);
	p = FMA(p, z, -0.166666667f);
	return FMA(p * z, h, h);
}
/* sine and cosine of an angle in units of 2^-64 turns: Taylor's polynomials, of what is left of quarter turns */
FUNCTION void turn_f(u64 angle, f32* sine, f32* cosine) {
	i32 quarter = (i32)((angle + ((u64)1 << 61)) >> 62);
	f32 h = (f32)(i64)(angle - ((u64)quarter << 62)) * 3.40612158e-19f, z = h * h;
	f32 p = FMA(z, 2.75573192e-6f, -1.98412698e-4f);
	p = FMA(p, z, 8.33333333e-3f);
	p = FMA(p, z, -0.166666667f);
	f32 s = FMA(p * z, h, h);
	p = FMA(z, -2.75573192e-7f, 2.48015873e-5f);
	p = FMA(p, z, -1.38888889e-3f);
	p = FMA(p, z, 4.16666667e-2f);
	p = FMA(p, z, -0.5f);
	f32 c = FMA(p, z, 1.0f);
	*sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
	*cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
}
/* erfc for x >= 0, by a rational approximation with an error of 1.2e-7 of the result (Press et al., Numerical Recipes, 6.2) */
FUNCTION f32 erfc_f(f32 z) {
	f32 t = 1.0f / FMA(0.5f, z, 1.0f);
	f32 p = FMA(t, 0.17087277f, -0.82215223f);
	p = FMA(p, t, 1.48851587f);
	p = FMA(p, t, -1.13520398f);
	p = FMA(p, t, 0.27886807f);
	p = FMA(p, t, -0.18628806f);
	p = FMA(p, t, 0.09678418f);
	p = FMA(p, t, 0.37409196f);
	p = FMA(p, t, 1.00002368f);
	return t * exp_f(-z * z) * exp_f(FMA(p, t, -1.26551223f));
}
/* the normal distribution */
FUNCTION f32 cdf_f(f32 x) {
	f32 z = x * 0.7071067812f;
	return z >= 0.0f ? FMA(-0.5f, erfc_f(z), 1.0f) : z < 0.0f ? 0.5f * erfc_f(-z) : x;
}
FUNCTION f32 dot_f(GLOBAL const f32* x, GLOBAL const f32* y, i64 n) {
	f32 s = 0.0f;
	for (i64 i = 0; i < n; i++) s = FMA(x[i], y[i], s);
	return s;
}
/* Philox4x32-10: the four words of a key at a counter */
FUNCTION void philox_f(u32 k0, u32 k1, u64 i, u32 step, u32* c) {
	c[0] = (u32)i;
	c[1] = (u32)(i >> 32);
	c[2] = step;
	c[3] = 0;
	for (i32 r = 0; r < 10; r++) {
		u64 a = (u64)0xD2511F53u * c[0], b = (u64)0xCD9E8D57u * c[2];
		c[0] = (u32)(b >> 32) ^ c[1] ^ k0;
		c[2] = (u32)(a >> 32) ^ c[3] ^ k1;
		c[1] = (u32)b;
		c[3] = (u32)a;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
}
/* whether dropout of rate p keeps element i of a step */
FUNCTION i32 kept_f(u32 k0, u32 k1, u64 i, u32 step, f32 p) {
	u32 c[4];
	philox_f(k0, k1, i / 4, step, c);
	return (f32)(c[i % 4] >> 8) * 5.9604645e-8f >= p;
}
/* x rounded to the nearest bfloat16, to even */
FUNCTION f32 bf16_f(f32 x) {
	u32 b = (u32)AS_INT(x);
	return AS_FLOAT((i32)((x != x ? b | 1u << 22 : b + 0x7fffu + (b >> 16 & 1u)) & 0xffff0000u));
}
/* the product of x, rounded to bfloat16, with y */
FUNCTION f32 rounded_dot_f(GLOBAL const f32* x, GLOBAL const f32* y, i64 n) {
	f32 s = 0.0f;
	for (i64 i = 0; i < n; i++) s = FMA(bf16_f(x[i]), y[i], s);
	return s;
}
/* the product of both rounded */
FUNCTION f32 both_rounded_dot_f(GLOBAL const f32* x, GLOBAL const f32* y, i64 n) {
	f32 s = 0.0f;
	for (i64 i = 0; i < n; i++) s = FMA(bf16_f(x[i]), bf16_f(y[i]), s);
	return s;
}
/* number i of a row that is stored as int8 in blocks of 32, each behind its scale in bfloat16 */
FUNCTION f32 int8_f(GLOBAL const u8* x, i64 i) {
	GLOBAL const u8* b = x + i / 32 * 34;
	i32 q = b[2 + i % 32];
	return (f32)(q > 127 ? q - 256 : q) * AS_FLOAT((i32)((u32)b[0] << 16 | (u32)b[1] << 24));
}
/* the high half of a product */
FUNCTION u64 high_u(u64 a, u64 b) {
	u64 a0 = (u32)a, a1 = a >> 32, b0 = (u32)b, b1 = b >> 32;
	u64 mid = a1 * b0 + (a0 * b0 >> 32), low = a0 * b1 + (u32)mid;
	return a1 * b1 + (mid >> 32) + (low >> 32);
}
/* a number that is larger for larger x */
FUNCTION u32 order_f(f32 x) {
	i32 b = AS_INT(x + 0.0f);
	return (u32)b ^ (b < 0 ? 0xffffffffu : 0x80000000u);
}
/* the least whole number, but 1, that is at least p of all */
FUNCTION u64 share_f(f32 p, u64 all) {
	u64 part = (u64)(i64)(p * 1099511627776.0f) << 24;
	u64 most = high_u(part, all) + (part * all != 0 ? 1 : 0);
	return most > 1 ? most : 1;
}
/* e^((x-best)/t) 2^46: as a power of 2 and a series, with 57 bits after the point */
FUNCTION u64 weight_f(f32 best, f32 x, f32 t) {
	f32 d = best - x, b = d - best, rest = (best - (d - b)) - (x + b);
	f32 q = d / t;
	if (!(q < 34.0f)) return 0;
	f32 more = (FMA(-q, t, d) + rest) / t;
	i64 f = (i64)(q * 144115188075855872.0f) + (i64)(more * 144115188075855872.0f);
	u64 ln2 = 99893036290645747, one = (u64)1 << 57;
	if (f < 0) f = 0;
	u64 n = (u64)f / ln2, r = ln2 - (u64)f % ln2, s = one;
	for (u32 k = 17; k > 0; k--) s = one + high_u(r << 7, s) / k;
	return n > 51 ? 0 : s >> (12 + n);
}
/* x 2^k, for x of at most 2^24 */
FUNCTION f32 scale_f(f32 x, i32 k) {
	k = k > 250 ? 250 : k < -250 ? -250 : k;
	return x * pow2(k / 2) * pow2(k - k / 2);
}
/* the bits of a float64 that is the sum of a positive h, or 0, and a small l; NaN and infinity where h is */
FUNCTION u64 bits_of(f32 h, f32 l) {
	if (h == 0.0f) return 0;
	if (!finite_f(h)) return (u64)(h != h ? 0x7ff80000u : 0x7ff00000u) << 32;
	/* h is m 2^(e-29), l is d 2^(e-29) */
	i32 e = AS_INT(h) >> 23;
	u64 m = (u64)(AS_INT(h) & 0x007fffff);
	if (e == 0) e = 1; else m |= 0x00800000;
	while (m < 0x00800000) { m <<= 1; e -= 1; }
	m <<= 29;
	i64 d = (i64)scale_f(l, 150 + 29 - e);
	m = (u64)((i64)m + d);
	if (m < (u64)1 << 52) { m <<= 1; e -= 1; }
	return ((u64)(e + 1023 - 127) << 52) | (m & (((u64)1 << 52) - 1));
}
/* the two parts of such a float64 */
FUNCTION f32 high_of(u64 b) {
	i32 e = (i32)(b >> 52) - 1075;
	if (b == 0) return 0.0f;
	if (e == 972) return (b << 12) != 0 ? NAN_F : INF_F;
	return scale_f((f32)(((b & (((u64)1 << 52) - 1)) | (u64)1 << 52) >> 29), e + 29);
}
FUNCTION f32 low_of(u64 b) {
	i32 e = (i32)(b >> 52) - 1075;
	return b == 0 || e == 972 ? 0.0f : scale_f((f32)(b & 0x1fffffff), e);
}
/* ADD_BITS adds a float64 to the pair s and c; SUM is the float32 nearest to them */
#define ADD_BITS(b) { u64 b_64 = (b); ADD(high_of(b_64)) c += low_of(b_64); }
#define SUM(s, c) (finite_f(s) ? (s) + (c) : (s))
FUNCTION f32 log1p_f(f32 x) { f32 u = 1.0f + x; return u == 1.0f ? x : log_f(u) * x / (u - 1.0f); }
/* element at of x, which lies at row h and column v of a plane of H x V; 0 outside */
FUNCTION f32 within_f(GLOBAL const f32* x, i64 at, i32 h, i32 v, i32 H, i32 V) {
	return h >= 0 && h < H && v >= 0 && v < V ? x[at] : 0.0f;
}
/* the output of a plane of P x Q whose window begins at row h and column v of padding; 0 for none */
FUNCTION f32 reader_f(GLOBAL const f32* dy, i32 h, i32 v, i32 P, i32 Q, i32 stride) {
	if (stride > 1) {
		if (h % stride != 0 || v % stride != 0) return 0.0f;
		h /= stride;
		v /= stride;
	}
	return h >= 0 && h < P && v >= 0 && v < Q ? dy[(i64)h * Q + v] : 0.0f;
}
`
