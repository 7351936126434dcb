package crew

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/executor/ranks"
)

// TestVigil: ranks that work for longer than the silence that is allowed go on, and end the vigil at other times.
func TestVigil(t *testing.T) {
	well(t, play(t, 3, func(i int) Options {
		o := member(i)
		o.Timeout = 2 * beat
		o.Lost = func(err error) { t.Error(err) }
		return o
	}, func(c *Crew) error {
		v := c.Watch()
		time.Sleep(3*beat + time.Duration(c.Rank())*100*time.Millisecond)
		v.End()
		return nil
	}))
}

// TestVigilLost: a rank that is silent is named once, and all are ended.
func TestVigilLost(t *testing.T) {
	var mu sync.Mutex
	var told []string
	ended := make(chan int, 9)
	all := ranks.NewLoop(2, func(code int) { ended <- code })
	var wg sync.WaitGroup
	for i, tr := range all {
		wg.Go(func() {
			o := member(i)
			o.Timeout = beat
			o.Lost = func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if !errors.Is(err, ErrSilent) {
					t.Error(err)
				}
				told = append(told, err.Error())
			}
			c, err := Meet(t.Context(), tr, o)
			if err != nil {
				t.Error(err)
				return
			}
			if i == 1 {
				return // it hangs
			}
			v := c.Watch()
			if code := <-ended; code != ExitLost {
				t.Errorf("exit code %d", code)
			}
			v.Stop()
		})
	}
	wg.Wait()
	if len(told) != 1 || !strings.Contains(told[0], "rank 1 (node0) has sent nothing for 1s, and a sign of life is waited for") {
		t.Errorf("told %q", told)
	}
}
