package crew

import (
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/executor/ranks"
)

// court is what ranks are told, and how they end.
type court struct {
	mu            sync.Mutex
	waiting, lost []string
	by            []int // the rank that was told
	codes         []int
	over          chan struct{} // closed by the first Abort
}

// judged has ranks with a short patience meet and do something, each in a goroutine.
func judged(t *testing.T, size int, patience time.Duration, options func(rank int, o *Options), do func(c *Crew, over <-chan struct{})) *court {
	t.Helper()
	r := &court{over: make(chan struct{})}
	all := ranks.NewLoop(size, func(code int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.codes = append(r.codes, code); len(r.codes) == 1 {
			close(r.over)
		}
	})
	var wg sync.WaitGroup
	for i, tr := range all {
		wg.Go(func() {
			o := member(i)
			o.Timeout, o.soon = patience, patience/2
			o.Waiting = func(text string) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.waiting = append(r.waiting, text)
			}
			o.Lost = func(err error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.lost, r.by = append(r.lost, err.Error()), append(r.by, i)
			}
			if options != nil {
				options(i, &o)
			}
			c, err := Meet(t.Context(), tr, o)
			if err == nil {
				do(c, r.over)
				err = c.Close()
			}
			select {
			case <-r.over:
			default:
				if err != nil {
					t.Errorf("rank %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	return r
}

// one fails unless one rank was told of a loss, in words that begin and end so, and all ended with a code. Here, one that is not
// rank 0 does not end the others before they are told, too.
func (r *court) one(t *testing.T, by, code int, begins, ends string) {
	t.Helper()
	if len(r.lost) == 0 || by == 0 && len(r.lost) > 1 || r.by[0] != by || !strings.HasPrefix(r.lost[0], begins) || !strings.HasSuffix(r.lost[0], ends) {
		t.Errorf("told rank %d %q, want rank %d %q … %q", r.by, r.lost, by, begins, ends)
	}
	if len(r.codes) == 0 || slices.ContainsFunc(r.codes, func(c int) bool { return c != code }) {
		t.Errorf("exit codes %d, want %d", r.codes, code)
	}
}

// A rank that works for longer than the silence that is allowed is named, and goes on; ranks come to their ends at other times.
func TestVigil(t *testing.T) {
	t.Parallel()
	const patience = time.Second
	r := judged(t, 3, patience, nil, func(c *Crew, _ <-chan struct{}) {
		if c.Rank() == 1 {
			time.Sleep(2 * patience)
		}
		if err := c.Agree(t.Context(), "its plan", nil); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Duration(c.Rank()) * patience)
	})
	if len(r.lost) > 0 || len(r.codes) > 0 {
		t.Errorf("told %q, exit codes %d", r.lost, r.codes)
	}
	if want := "waiting for rank 1 (node0), its plan: it is at work"; !slices.Contains(r.waiting, want) {
		t.Errorf("told %q, want %q", r.waiting, want)
	}
}

// A rank that is silent is named once, by rank 0, or by the next one where it is rank 0.
func TestSilence(t *testing.T) {
	t.Parallel()
	for silent, by := range []int{1, 0, 0} {
		r := judged(t, 3, 1500*time.Millisecond, nil, func(c *Crew, over <-chan struct{}) {
			if c.Rank() == silent {
				c.vigil.cancel() // it hangs
			}
			<-over
		})
		r.one(t, by, ExitLost, "nothing has come from rank "+[]string{"0 (node0)", "1 (node0)", "2 (node1)"}[silent]+" for ", "start all ranks again")
	}
}

// A rank that does not come is named.
func TestSilenceAtTheStart(t *testing.T) {
	t.Parallel()
	var told string
	all := ranks.NewLoop(2, func(int) {})
	_, err := Meet(t.Context(), all[0], Options{Timeout: 200 * time.Millisecond, Lost: func(err error) { told = err.Error() }})
	if err == nil || !strings.Contains(told, "nothing has come from rank 1 for ") {
		t.Errorf("%v, told %q", err, told)
	}
}

// Where no rank gets on with its step, all end, and the one that they wait for is named with what it does. Slow data is named, and
// waited for.
func TestStandstill(t *testing.T) {
	t.Parallel()
	for _, must := range []bool{true, false} {
		const patience = time.Second
		r := judged(t, 3, patience, nil, func(c *Crew, over <-chan struct{}) {
			c.SetDoing(func() Doing {
				return []Doing{
					{Step: 7, What: "it computes", Must: true, Rank: 2, For: "receive of grad/a"},
					{Step: 7, What: "it reads its data", Must: must, Rank: 1},
					{Step: 7, What: "it computes", Must: true, Rank: 1, For: "receive of grad/b"},
				}[c.Rank()]
			})
			if must {
				<-over
			} else {
				time.Sleep(2 * patience)
			}
		})
		const who = "rank 1 (node0) at step 7, receive of grad/b: it reads its data"
		if !slices.Equal(r.waiting, []string{"waiting for " + who}) {
			t.Errorf("told %q", r.waiting)
		}
		if must {
			r.one(t, 0, ExitLost, "no rank has got on for 1s, and all wait for "+who, "start all ranks again")
		} else if len(r.lost) > 0 {
			t.Errorf("told %q", r.lost)
		}
	}
}

// A step that goes on is no standstill, however long it takes.
func TestLongStep(t *testing.T) {
	t.Parallel()
	const patience = time.Second
	r := judged(t, 2, patience, nil, func(c *Crew, _ <-chan struct{}) {
		moves := uint64(0)
		c.SetDoing(func() Doing {
			moves++
			return Doing{Step: 1, What: "it computes", Must: true, Rank: c.Rank(), Moves: moves}
		})
		time.Sleep(2 * patience)
	})
	if len(r.lost) > 0 || len(r.waiting) > 0 {
		t.Errorf("told %q and %q", r.waiting, r.lost)
	}
}

// Whatever ranks fail, one is told of, and all end as its failure says.
func TestTell(t *testing.T) {
	t.Parallel()
	for _, failing := range [][]int{{0}, {1}, {2}, {0, 1, 2}, {1, 2}} {
		var mu sync.Mutex
		var own []int
		r := judged(t, 3, time.Minute, func(_ int, o *Options) {
			o.KindOf = func(error) Kind { return Stopped }
			o.Text = func(err error) string { return err.Error() + ": do something" }
		}, func(c *Crew, over <-chan struct{}) {
			if !slices.Contains(failing, c.Rank()) {
				<-over
				return
			}
			c.Transport().Fail(io.ErrUnexpectedEOF)
			told := c.Tell(io.ErrUnexpectedEOF)
			if again := c.Tell(io.EOF); again != told {
				t.Errorf("told %v, then %v", told, again)
			}
			c.Cut(io.ErrUnexpectedEOF)
			if !told {
				mu.Lock()
				own = append(own, c.Rank())
				mu.Unlock()
				c.Abort(ExitLost)
			}
		})
		if len(own)+len(r.lost) != 1 || len(own) == 1 && own[0] != 0 {
			t.Errorf("%d fail: ranks %d tell, and rank 0 was told %q", failing, own, r.lost)
		}
		if len(own) == 0 {
			r.one(t, 0, ExitLost, "rank ", "): unexpected EOF: do something")
		}
	}
}

// A rank that fails tells the user itself where rank 0 does not answer.
func TestTellNobody(t *testing.T) {
	t.Parallel()
	deaf := make(chan struct{})
	r := judged(t, 2, time.Minute, nil, func(c *Crew, over <-chan struct{}) {
		if c.Rank() == 0 {
			c.vigil.cancel()
			c.vigil.all.Wait()
			close(deaf)
			<-over
			return
		}
		<-deaf
		if c.Tell(io.ErrUnexpectedEOF) {
			t.Error("rank 0 has told it")
		}
		c.Abort(1)
	})
	if len(r.lost) > 0 {
		t.Errorf("told %q", r.lost)
	}
}

// A process that is gone is noticed long before its silence.
func TestGone(t *testing.T) {
	t.Parallel()
	c := exec.Command("go", "version")
	if err := c.Run(); err != nil {
		t.Skip(err)
	}
	r := judged(t, 3, time.Minute, func(rank int, o *Options) {
		if rank == 1 {
			o.Process = c.Process.Pid
		}
	}, func(c *Crew, over <-chan struct{}) {
		if c.Rank() == 1 {
			c.vigil.cancel()
		}
		<-over
	})
	r.one(t, 0, ExitLost, "rank 1 (node0) has ended", "start all ranks again")
}

// The waits of a step end with its failure; the ranks hear each other on.
func TestStepsFail(t *testing.T) {
	t.Parallel()
	well(t, play(t, 2, member, func(c *Crew) error {
		e := c.Transport().Recv(1-c.Rank(), ranks.TagTensor, make([]byte, 4))
		if e.Done() || e.Err() != nil {
			return errors.New("it has come")
		}
		c.Transport().Fail(io.ErrUnexpectedEOF)
		for _, err := range []error{e.Wait(t.Context()), e.Err(), c.Transport().Recv(1-c.Rank(), ranks.TagTensor, make([]byte, 4)).Wait(t.Context())} {
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				return err
			}
		}
		return c.Agree(t.Context(), "its end", nil)
	}))
}

// endless is a transport that does not come to its end.
type endless struct {
	ranks.Transport
	over <-chan struct{}
}

func (e endless) Close() error {
	<-e.over
	return nil
}

// Ranks that do not end together are ended.
func TestCloseHangs(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	var told error
	all := ranks.NewLoop(1, func(code int) {
		if code != ExitLost {
			t.Errorf("exit code %d", code)
		}
		close(over)
	})
	c, err := Meet(t.Context(), endless{all[0], over}, Options{Timeout: 100 * time.Millisecond, Lost: func(err error) { told = err }})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); !errors.Is(err, ErrSilent) || !errors.Is(told, ErrSilent) {
		t.Errorf("%v, told %v", err, told)
	}
}
