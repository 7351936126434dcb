package ops

import "slices"

// table has every op that needs a kernel, with only the attributes that are part
// of its name. Each file holds the rows of its ops.
var table = slices.Concat(elementwiseOps(), gatedOps(), selectOps, matmulOps, convOps, poolOps, reduceOps, movementOps, castOps, softmaxOps,
	lossOps, countOps, normOps, randomOps, gatherOps, attentionOps, rotaryOps, updateOps, rangedOps, generateOps, lengthOps, dynamicOps)

// Kinds lists the kinds of all ops in alphabetical order. A device that runs
// everything has a kernel for each.
func Kinds() []string {
	kinds := make([]string, len(table))
	for i, op := range table {
		kinds[i] = op.Kind()
	}
	slices.Sort(kinds)
	return kinds
}
