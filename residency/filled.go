package residency

import (
	"cmp"
	"context"

	"github.com/berth-ml/berth/engine/device"
)

// filled is the events of host memory that a copy fills. The zero filled has
// happened.
type filled struct {
	copied device.Event // of the copy
	source device.Event // of the write or copy that made what is copied; it ends first
}

// Wait blocks until the copy has ended. Its error is the failure of the source or
// of the copy, or ctx's.
func (f filled) Wait(ctx context.Context) error {
	if err := f.copied.Wait(ctx); err != nil {
		return cmp.Or(f.source.Err(), err)
	}
	return f.source.Wait(ctx)
}
