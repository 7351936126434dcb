/* The names of CUDA C that kernels use, for clang without NVIDIA's headers. */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __fmaf_rn(a, b, c) __nvvm_fma_rn_f(a, b, c)
#define __fsqrt_rn(x) __nvvm_sqrt_rn_f(x)
static __device__ int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
static __device__ float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
struct berth_index { unsigned x; };
#define threadIdx berth_index{(unsigned)__nvvm_read_ptx_sreg_tid_x()}
#define blockDim berth_index{(unsigned)__nvvm_read_ptx_sreg_ntid_x()}
#define blockIdx berth_index{(unsigned)__nvvm_read_ptx_sreg_ctaid_x()}
