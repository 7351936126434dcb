package crew

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestPilot: whoever asks for a stop or a save, all do it after the same steps, and soon. Ranks are as fast as they like,
// within the step that they wait for each other's sums.
func TestPilot(t *testing.T) {
	const size, steps, asked = 4, 40, 20
	for asker := range size {
		t.Run(fmt.Sprint("rank ", asker), func(t *testing.T) {
			var mu sync.Mutex
			logs := make([][]string, size)
			well(t, play(t, size, member, func(c *Crew) error {
				p, log := c.NewPilot(), []string{}
				for n := 1; n <= steps; n++ {
					var o Orders
					if c.Rank() == asker && n == asked/2 {
						o = Orders{Save: true, Why: "a save"}
					}
					if c.Rank() == asker && n >= asked {
						o = Orders{Stop: true, Why: "a signal"}
					}
					if err := p.Next(t.Context(), o); err != nil {
						return err
					}
					time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
					got, err := p.Orders(t.Context())
					if err != nil {
						return err
					}
					if got != (Orders{}) {
						log = append(log, fmt.Sprint(n, got))
					}
					if got.Stop {
						break
					}
				}
				mu.Lock()
				defer mu.Unlock()
				logs[c.Rank()] = log
				return p.End(t.Context())
			}))
			late := 0
			if asker > 0 {
				late = 1
			}
			want := []string{fmt.Sprint(asked/2+late, Orders{Save: true, Why: "a save"}), fmt.Sprint(asked+late, Orders{Stop: true, Why: "a signal"})}
			for i, log := range logs {
				if !slices.Equal(log, want) {
					t.Errorf("rank %d: %q, want %q", i, log, want)
				}
			}
		})
	}
}

// TestOrdersMessage: what is sent is what comes, within its length and in whole characters.
func TestOrdersMessage(t *testing.T) {
	long := Orders{Stop: true, Why: "ä signal that came fröm somewhere, with a reasön that is töö löng för it"}
	var b [orderBytes]byte
	for _, o := range []Orders{{}, {Save: true}, {Stop: true, Why: "rank 2 (node7): a signal came (terminated)"}, long} {
		o.put(b[:])
		got := ordersOf(b[:])
		if got != o && (o != long || !got.Stop || len(got.Why) < orderBytes-2 || long.Why[:len(got.Why)] != got.Why) {
			t.Errorf("%+v came as %+v", o, got)
		}
	}
}
