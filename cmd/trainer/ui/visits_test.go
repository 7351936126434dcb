package ui

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
)

// A request that ends while the queue is asked does not end that: the next look has the answer, but not one that is old by then.
func TestQueueOutlivesRequest(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration // from the end of the request to the next look
		asked int           // by then
	}{{time.Second, 1}, {time.Minute, 2}} {
		synctest.Test(t, func(t *testing.T) {
			life, end := context.WithCancel(t.Context())
			defer end()
			asked := 0
			b := newBoard(life, t.TempDir(), func(ctx context.Context) []queued.Record {
				asked++
				select {
				case <-time.After(time.Second):
					return []queued.Record{{ID: asked, State: "waiting"}}
				case <-ctx.Done():
					return []queued.Record{{ID: asked, State: "waiting", Where: "not known now: " + ctx.Err().Error()}}
				}
			})
			request, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if b.look(request) {
				t.Error("a look that was cut short is whole")
			}
			time.Sleep(c.pause)
			if !b.look(t.Context()) {
				t.Error("the next look is not whole")
			}
			if j := b.job(jobRow(c.asked)); j == nil || j.Where != "" || asked != c.asked {
				t.Errorf("after %v: %+v, asked %d times", c.pause, j, asked)
			}
			b.visits.going.close()
		})
	}
}
