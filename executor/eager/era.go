package eager

import "context"

// era is the time between two Restarts: the calls made in it are canceled
// together.
type era struct {
	context.Context
	cancel context.CancelCauseFunc
}

func newEra() *era {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &era{ctx, cancel}
}
