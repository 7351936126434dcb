package vec

// Narrow are the functions of one level over all rows of a and b, of n elements
// each, at once. They report whether the level can: rows must fit into one
// vector. y may be a or b.
type Narrow struct {
	Softmax        func(y, a, _ []float32, n int) bool // y = e^a / sum of e^a
	LogSoftmax     func(y, a, _ []float32, n int) bool // y = a - log(sum of e^a)
	SoftmaxGrad    func(y, a, b []float32, n int) bool // y = a*(b - sum of a*b)
	LogSoftmaxGrad func(y, a, b []float32, n int) bool // y = b - e^a * sum of b
}

var genericNarrow = Narrow{Softmax: tooWide, LogSoftmax: tooWide, SoftmaxGrad: tooWide, LogSoftmaxGrad: tooWide}

// tooWide is for levels without vectors.
func tooWide(_, _, _ []float32, _ int) bool { return false }
