package crew

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/berth-ml/berth/executor/ranks"
)

// member is rank i where each machine has two.
func member(i int) Options {
	return Options{Member: Member{Host: fmt.Sprintf("node%d", i/2), Program: "trainer 1", Free: 100, Threads: 5}}
}

// play has ranks meet and do something, each in a goroutine, and gives what becomes of each.
func play(t *testing.T, size int, options func(rank int) Options, do func(c *Crew) error) []error {
	t.Helper()
	all, errs := ranks.NewLoop(size, func(int) {}), make([]error, size)
	var wg sync.WaitGroup
	for i, tr := range all {
		wg.Go(func() {
			c, err := Meet(t.Context(), tr, options(i))
			if err == nil {
				err = errors.Join(do(c), c.Close())
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errs
}

// well fails where a rank did.
func well(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}
