package eager

import (
	"context"
	"sync"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
)

// home is the part of a lane that tensors refer to.
type home struct {
	dev      device.Device
	progress progress
	context  copier // the Context, which is built on tensors

	mu     sync.Mutex // guards the lane, except for the fields of its goroutine, and all its tensors
	memory memory
}

// copier copies contents for Tensor's methods.
type copier interface {
	copyTo(x Tensor, to device.ID, loc Location) Tensor
	toHost(ctx context.Context, x Tensor, loc Location) (*tensor.Dense, error)
}
