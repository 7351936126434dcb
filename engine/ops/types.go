package ops

import (
	"slices"
	"strings"
)

// elementTypes lists, for kinds of ops, the element types of their inputs and outputs,
// as [KernelNames] has them after the kind.
var elementTypes = []struct{ types, kinds string }{
	{"(f32)->f32", "abs affine avg_pool2d avg_pool2d_grad check_finite exp gelu_erf gelu_tanh log"},
	{"(f32)->f32", "log_softmax neg reduce_max reduce_mean reduce_sum relu rsqrt sigmoid silu"},
	{"(f32)->f32", "slice_grad softmax sqrt square sum_squares sum_to tanh"},
	{"(f32)->f32,i32", "max_pool2d"},
	{"(f32)->i32", "square_parts"},
	{"(f32)->f32 (f32)->i32 (i32)->f32 (bf16)->f32 (i8b)->f32", "cast"},
	{"(f32,f32)->f32", "abs_grad add bce binary_correct conv2d conv2d_grad_w conv2d_grad_x div exp_grad"},
	{"(f32,f32)->f32", "gelu_erf_grad gelu_tanh_grad lerp log_grad log_softmax_grad mse mul relu_grad"},
	{"(f32,f32)->f32", "equal geglu geglu_tanh less select_grad swiglu"},
	{"(f32,f32)->f32", "rsqrt_grad sigmoid_grad silu_grad softmax_grad sqrt_grad square_grad sub tanh_grad"},
	{"(f32,f32)->f32 (f32,bf16)->f32 (f32,i8b)->f32", "matmul"},
	{"(f32,f32)->i32", "binary_outcome"},
	{"(f32,f32,f32)->f32", "bce_grad mse_grad reduce_max_grad select"},
	{"(f32,f32)->f32,f32", "rms_norm"},
	{"(f32,f32,f32,f32)->f32,f32", "rms_norm_grad"},
	{"(f32,f32,f32)->f32,f32,f32", "layer_norm"},
	{"(f32,f32,f32)->f32,f32,f32,f32", "batch_norm"},
	{"(f32,f32,f32,f32,f32)->f32", "batch_norm_eval"},
	{"(f32,f32,f32,f32,f32)->f32,f32,f32", "batch_norm_grad layer_norm_grad"},
	{"(f32,f32,f32,i32)->f32", "cached_attention"},
	{"(f32,f32,i32)->f32", "cache_write state_write"},
	{"(f32,i32)->f32", "correct last_row"},
	{"(f32,i32)->f32 (bf16,i32)->f32 (i8b,i32)->f32", "gather"},
	{"(f32,i32)->f32,f32", "cross_entropy"},
	{"(f32,i32)->i32", "outcome rank"},
	{"(f32,i32,f32)->f32", "ring_write"},
	{"(f32,i32,f32,f32)->f32", "cross_entropy_grad"},
	{"(f32,i32,f32,i32)->i32", "sample"},
	{"(f32,i32,i32,i32,f32)->f32", "repetition_penalty"},
	{"(i32,i32,i32)->i32", "seen_write"},
	{"(f32,i32,i32)->f32", "dropout"},
	{"(f32...)->f32", "clip_factor grad_norm"},
	{"(i32)->f32", "learning_rate position_weights"},
	{"(i32)->i32", "increment positions"},
	{"(i32,f32)->f32", "max_pool2d_grad scatter_add"},
	{"(i32,i32)->i32", "pad_with tally"},
	{"(i32...)->f32", "square_total"},
	{"()->f32 ()->i32", "fill"},
	{"(f32)->i32,i32 (i32)->i32,i32", "nonzero"},
	{"(f32)->f32,i32,i32,i32 (i32)->i32,i32,i32,i32", "unique"},
	{"(f32)->f32 (i32)->i32", "broadcast_to reshape slice transpose"},
	{"(f32)->f32 (f32,i32)->f32", "rotary"},
	{"(f32)->f32,f32 (f32,i32)->f32,f32 (f32,i32,i32)->f32,f32 (f32,i32,i32,i32)->f32,f32", "attention"},
	{"(f32,f32,f32,f32)->f32 (f32,f32,f32,f32,i32)->f32 (f32,f32,f32,f32,i32,i32)->f32 (f32,f32,f32,f32,i32,i32,i32)->f32", "attention_grad"},
	{"(f32,f32,f32,f32,i32,f32)->f32,f32,f32 (f32,f32,f32,f32,i32,f32,f32)->f32,f32,f32", "adam"},
	{"(f32,f32,f32,f32)->f32,f32 (f32,f32,f32,f32,f32)->f32,f32", "lion"},
	{"(f32...)->f32 (f32...)->f32,f32", "sgd"},
	{"(f32...)->f32 (i32...)->i32", "concat"},
	{"(f32,f32,f32,f32,i32,f32)->f32,f32,f32 (f32,f32,f32,f32,i32,f32,f32)->f32,f32,f32 (f32...)->f32 (f32...)->f32,f32 (f32,f32,f32,f32,f32,i32,f32)->f32,f32,f32,f32 (f32,f32,f32,f32,f32,i32,f32,f32)->f32,f32,f32,f32 (f32...)->f32,f32,f32", "ranged"},
	{"(f32,f32,f32,f32,f32,i32,f32)->f32,f32,f32,f32 (f32,f32,f32,f32,f32,i32,f32,f32)->f32,f32,f32,f32 (f32...)->f32,f32,f32 (f32...)->f32,f32", "averaged"},
}

// KernelNames lists the names of the kernels that a kind of op has, by the element types
// of inputs and outputs: "matmul(f32,f32)->f32", or for any number of inputs of one type
// "concat(f32...)->f32". A device that runs everything has a kernel for each.
func KernelNames(kind string) (names []string) {
	for _, row := range elementTypes {
		if slices.Contains(strings.Fields(row.kinds), kind) {
			for _, types := range strings.Fields(row.types) {
				names = append(names, kind+types)
			}
		}
	}
	return names
}
