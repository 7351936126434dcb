package residency

import "github.com/berth-ml/berth/engine/device"

// want is a distinct tensor and device among the needs of an attempt.
type want struct {
	t    *Tensor
	d    *devState
	c    *devCopy // of t on d
	mode Mode
}

// notes is the memory of an attempt, which a later one reuses.
type notes struct {
	wants []want
	waits device.Fence // what the stream is to wait for
	ends  device.Fence // and, however it ends
	made  device.Fence // the events by which a tensor's contents are made
}
