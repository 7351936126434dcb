package ref

import "github.com/berth-ml/berth/engine/graph"

// kernel computes the outputs of an op. out comes with the right metadata,
// and zeroed.
type kernel func(op graph.Op, in, out []Array) error

// of makes a kernel of a function that takes one type of op and cannot fail.
func of[T graph.Op](f func(o T, in, out []Array)) kernel {
	return func(op graph.Op, in, out []Array) error {
		f(op.(T), in, out)
		return nil
	}
}
