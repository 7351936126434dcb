package ops

import "slices"

// table has every op that needs a kernel, with no attributes but those that
// name it. Each file holds the rows of its ops.
var table = slices.Concat(elementwiseOps(), matmulOps, convOps, poolOps, reduceOps, movementOps, softmaxOps,
	lossOps, normOps, randomOps, gatherOps, attentionOps, updateOps)

// Kinds lists the kinds of all ops in alphabetical order: what a device that
// runs everything has kernels for.
func Kinds() []string {
	kinds := make([]string, len(table))
	for i, op := range table {
		kinds[i] = op.Kind()
	}
	slices.Sort(kinds)
	return kinds
}
