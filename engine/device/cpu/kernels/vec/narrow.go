package vec

// Narrow are the functions of one instruction set over all rows at once, of n elements
// each. They report whether they can: rows must fit into four vectors. y may be an
// array that is read. most, sums and logs have a number for each row.
type Narrow struct {
	Softmax        func(y, a, _ []float32, n int) bool          // y = e^a / sum of e^a
	SoftmaxGrad    func(y, a, b []float32, n int) bool          // y = a*(b - sum of a*b)
	LogSoftmaxGrad func(y, a, b []float32, n int) bool          // y = b - e^a * sum of b
	ExpSums        func(most, sums, x []float32, n int) bool    // the largest of x, and the sum of e^(x-most)
	Minus          func(y, x, most, logs []float32, n int) bool // y = x - most - logs
}

var genericNarrow = Narrow{
	Softmax: tooWide, SoftmaxGrad: tooWide, LogSoftmaxGrad: tooWide, ExpSums: tooWide,
	Minus: func(_, _, _, _ []float32, _ int) bool { return false },
}

// tooWide is all functions without vectors.
func tooWide(_, _, _ []float32, _ int) bool { return false }
