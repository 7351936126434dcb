package ranks_test

import (
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/rankstest"
)

// TestLoop plays the suite of transports between goroutines.
func TestLoop(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4} {
		var code atomic.Int32
		var play, fail errgroup.Group
		world := ranks.NewLoop(n, func(c int) { code.Store(int32(c)) })
		for _, w := range world {
			play.Go(func() error { return rankstest.Play(t.Context(), w) })
		}
		if err := play.Wait(); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			continue
		}
		for _, w := range world {
			fail.Go(func() error { return rankstest.Fail(t.Context(), w) })
		}
		if err := fail.Wait(); err != nil || code.Load() != 42 {
			t.Errorf("%d ranks: %v, and the code %d", n, err, code.Load())
		}
	}
}
