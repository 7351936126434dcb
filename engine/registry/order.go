package registry

import (
	"slices"
	"strings"
)

// orders are the orders of Berth's own names in lists and in documents, where related ones
// are together. Names that are not here come after them, by name.
var orders = map[Kind][]string{
	Layer: strings.Fields(`dense conv2d max_pool avg_pool adaptive_avg_pool global_avg_pool relu gelu gelu_tanh silu sigmoid tanh
		exp log sqrt softmax log_softmax flatten reshape transpose slice layernorm rmsnorm batchnorm groupnorm dropout embedding
		positional_embedding attention grouped_attention gated_mlp lstm gru sum mean max neg abs square rsqrt affine broadcast concat residual`),
	Loss:      {"cross_entropy", "focal", "mse", "l1", "huber", "bce"},
	Optimizer: {"sgd", "momentum", "nesterov", "adam", "adamw", "lion"},
	Schedule:  {"constant", "step", "cosine", "linear", "wsd", "inverse_sqrt", "one_cycle"},
	Metric: strings.Fields(`accuracy precision recall f1 precision_positive recall_positive f1_positive precision_micro recall_micro f1_micro confusion
		auc average_precision rmse mae r2 perplexity bits_per_byte`),
}

// Compare orders two names of a kind, as lists have them: Berth's own first, then those of
// a program, which have a version.
func Compare(k Kind, a string, versionA int, b string, versionB int) int {
	if programs := min(versionA, 1) - min(versionB, 1); programs != 0 {
		return programs
	}
	if versionA == 0 {
		if first := place(k, a) - place(k, b); first != 0 {
			return first
		}
	}
	return strings.Compare(a, b)
}

func place(k Kind, name string) int {
	if i := slices.Index(orders[k], name); i >= 0 {
		return i
	}
	return len(orders[k])
}
