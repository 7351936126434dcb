package runtest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/crew"
)

// Ranks has ranks within this process meet and do something, each in a goroutine, and gives what becomes of each. Each is a machine
// of its own, node0 and on, with so many threads. A rank that fails by itself ends the others, which wait for it.
func Ranks(t *testing.T, size, threads int, do func(c *crew.Crew) error) []error {
	t.Helper()
	all, errs := ranks.NewLoop(size, func(int) {}), make([]error, size)
	var wg sync.WaitGroup
	for i, tr := range all {
		wg.Go(func() {
			c, err := crew.Meet(t.Context(), tr, crew.Options{Timeout: time.Minute, Carrier: "a loop", Member: crew.Member{Host: fmt.Sprintf("node%d", i), Program: "test", Threads: threads}})
			if err == nil {
				err = do(c)
				if _, all := errors.AsType[*crew.Verdict](err); err != nil && !all {
					c.Abort(1)
				}
				err = errors.Join(err, c.Close())
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errs
}
