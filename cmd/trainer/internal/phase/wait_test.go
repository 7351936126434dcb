package phase

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// Wait ends at once when it is told to, or the context ends, and has then
// written its last.
func TestWaitEnds(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		began := time.Now()
		done := Wait(ctx, &out, "planning")
		if cancelled {
			cancel()
		}
		done()
		done()
		cancel()
		if out.Len() > 0 || time.Since(began) > Heartbeat {
			t.Errorf("cancelled %v: it wrote %q", cancelled, out.String())
		}
	}
	Wait(t.Context(), nil, "planning")()
}
