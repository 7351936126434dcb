package residency

// want is a distinct tensor and device among the needs of an attempt.
type want struct {
	t    *Tensor
	d    *devState
	c    *devCopy // of t on d
	mode Mode
}
