package console

import (
	"context"
	"errors"
	"io"
	"testing"
)

// What never comes is waited for until the context ends.
func TestWait(t *testing.T) {
	if got, err := Wait(t.Context(), func() (int, error) { return 7, io.EOF }); got != 7 || err != io.EOF {
		t.Errorf("got %d, %v", got, err)
	}
	never, write := io.Pipe()
	defer write.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err := Wait(ctx, func() ([]byte, error) { return io.ReadAll(never) }); err != stop {
		t.Errorf("got %v, want %v", err, stop)
	}
}
