package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// Trainings whose floors do not fit together take turns, and an evaluation beside them has its own: nobody waits for the
// end of another. Each has the weights that it has alone.
func TestTurns(t *testing.T) {
	testall.Long(t)
	c := runtest.Parsed(t, "digits", "train.epochs=1000", "optimizer.weight_decay=0.01")
	_, floor, _ := alone(t, c, berth.TrainOptions{MaxSteps: 1})
	evaluated := berth.Weights{Dir: t.TempDir()}
	d := runtest.OpenDevices(t, "cpu", floor+floor/2)
	if _, err := runtest.OpenOn(t, d, c).Train(t.Context(), berth.TrainOptions{Dir: evaluated.Dir, MaxSteps: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	const runs = 3
	var all, turns sync.WaitGroup // turns: of each run, a step after it has given its memory away
	var reports [runs]*berth.Report
	turns.Add(runs)
	for i := range runs {
		r, gave, took := runtest.OpenOn(t, d, c), false, false
		o := &berth.Observer{
			Note: func(text string) { gave = gave || strings.HasPrefix(text, "takes turns") },
			Step: func(berth.Step) {
				if gave && !took {
					took = true
					turns.Done()
				}
			},
		}
		all.Go(func() {
			var err error
			if reports[i], err = r.Train(ctx, berth.TrainOptions{Dir: t.TempDir(), Observer: o, AssertResident: true}); !errors.Is(err, berth.ErrStopped) {
				t.Error(err)
				if !took {
					turns.Done()
				}
			}
		})
	}
	if _, err := runtest.OpenOn(t, d, c).Eval(t.Context(), evaluated); err != nil {
		t.Errorf("an evaluation beside them: %v", err)
	}
	turns.Wait()
	enough()
	all.Wait()
	for i, got := range reports {
		if got == nil {
			t.Errorf("training %d has no report", i)
			continue
		}
		if want, _, _ := alone(t, c, berth.TrainOptions{MaxSteps: got.Steps}); got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("training %d has other weights than alone after %d steps", i, got.Steps)
		}
		if got.SuspendedS == 0 {
			t.Errorf("training %d does not report for how long others had their turn", i)
		}
	}
}

// turned are two trainings, of which the first waits for its turn while the second one stands in its first step.
type turned struct {
	ctx    context.Context
	first  *berth.Run
	stop   context.CancelCauseFunc // of the first
	ended  chan error              // its
	report *berth.Report           // its, once it has ended
	goOn   func()                  // of the second, to its end: it takes two steps
	other  chan error
}

// errEarly: the first one ended before the second one had its turn.
var errEarly = errors.New("the first one ends before the second one has its turn")

// takeTurns begins trainings of two configs on devices.
func takeTurns(t *testing.T, d *berth.Devices, a, b *configs.Config, o berth.TrainOptions) *turned {
	t.Helper()
	x, err := tryTurns(t, d, a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// tryTurns is takeTurns. It fails with errEarly.
func tryTurns(t *testing.T, d *berth.Devices, a, b *configs.Config, o berth.TrainOptions) (*turned, error) {
	t.Helper()
	x := &turned{first: runtest.OpenOn(t, d, a), ended: make(chan error, 1), other: make(chan error, 1)}
	x.ctx, x.stop = context.WithCancelCause(t.Context())
	steps, gives, waits, stands, goes := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var begin, give, wait, stand, on sync.Once
	x.goOn = func() { on.Do(func() { close(goes) }) }
	t.Cleanup(x.goOn)
	o.Dir = t.TempDir()
	o.Observer = &berth.Observer{
		Step: func(berth.Step) { begin.Do(func() { close(steps) }) },
		Note: func(text string) {
			if strings.HasPrefix(text, "takes turns") {
				give.Do(func() { close(gives) })
			}
		},
	}
	go func() {
		var err error
		x.report, err = x.first.Train(x.ctx, o)
		x.ended <- err
	}()
	until := func(all ...<-chan struct{}) error {
		for _, c := range all {
			select {
			case <-c:
			case err := <-x.ended:
				return fmt.Errorf("%w: %w", errEarly, err)
			}
		}
		return nil
	}
	if err := until(steps); err != nil {
		return nil, err
	}
	second, dir := runtest.OpenOn(t, d, b), t.TempDir()
	go func() {
		_, err := second.Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 2, Observer: &berth.Observer{
			Note: func(string) { wait.Do(func() { close(waits) }) },
			Step: func(berth.Step) { stand.Do(func() { close(stands); <-goes }) },
		}})
		x.other <- err
	}()
	if err := until(waits, gives, stands); err != nil {
		x.goOn()
		<-x.other
		return nil, err
	}
	return x, nil
}

// While a training waits for its turn, it saves as asked, its time counts, its context ends it, and it is suspended. No training by
// Start takes its place, though there is room beside the one whose turn it is.
func TestWaitForATurn(t *testing.T) {
	testall.Long(t)
	a := runtest.Parsed(t, "digits", "train.epochs=1000", "train.boundary=1000000")
	b := runtest.Parsed(t, "digits", "train.epochs=1000", "train.batch=16")
	_, large, _ := alone(t, a, berth.TrainOptions{MaxSteps: 1})
	_, small, _ := alone(t, b, berth.TrainOptions{MaxSteps: 1})
	memory, enough := max(2*small, large), errors.New("enough")
	if memory >= large+small {
		t.Fatalf("%d and %d bytes fit together", large, small)
	}
	t.Run("context", func(t *testing.T) {
		d, save := runtest.OpenDevices(t, "cpu", memory), make(chan struct{})
		x := takeTurns(t, d, a, b, berth.TrainOptions{SaveNow: save})
		save <- struct{}{}
		save <- struct{}{} // it is saved already
		over, cancel := context.WithCancelCause(t.Context())
		third := runtest.OpenOn(t, d, b)
		note := func(string) { cancel(enough) }
		if s, err := third.Start(over, berth.TrainOptions{Dir: t.TempDir(), Observer: &berth.Observer{Note: note}}); !errors.Is(err, enough) {
			t.Errorf("another one takes its place: %v", err)
			if s != nil {
				_ = s.Close()
			}
		}
		if err := x.first.Suspend(soon(t)); err != nil {
			t.Error(err)
		}
		x.stop(enough)
		if err := <-x.ended; !errors.Is(err, berth.ErrStopped) || !errors.Is(err, enough) || x.report == nil || x.report.Checkpoints.Count != 1 || x.report.SuspendedS == 0 {
			t.Errorf("it ends with %v, and does not report one save and the wait", err)
		}
		x.goOn()
		if err := <-x.other; err != nil && !errors.Is(err, berth.ErrStopped) {
			t.Error(err)
		}
	})
	t.Run("time", func(t *testing.T) {
		var x *turned
		for most := 4 * time.Second; x == nil; most *= 2 { // until that is more than a turn takes
			var err error
			if x, err = tryTurns(t, runtest.OpenDevices(t, "cpu", memory), a, b, berth.TrainOptions{MaxTime: most}); err != nil && !errors.Is(err, berth.ErrStopped) {
				t.Fatal(err)
			}
		}
		if err := <-x.ended; !errors.Is(err, berth.ErrStopped) || x.report == nil || x.report.Checkpoints.Count != 1 {
			t.Errorf("it ends with %v, or is not saved", err)
		}
		x.goOn()
		if err := <-x.other; err != nil && !errors.Is(err, berth.ErrStopped) {
			t.Error(err)
		}
	})
	t.Run("suspended", func(t *testing.T) {
		x := takeTurns(t, runtest.OpenDevices(t, "cpu", memory), a, b, berth.TrainOptions{MaxSteps: 1 << 20})
		if err := errors.Join(x.first.Suspend(soon(t)), x.first.Continue()); err != nil {
			t.Error(err)
		}
		x.goOn()
		if err := <-x.other; err != nil && !errors.Is(err, berth.ErrStopped) {
			t.Error(err)
		}
		x.stop(enough)
		if err := <-x.ended; !errors.Is(err, enough) || x.report == nil {
			t.Fatal(err)
		}
		if want, _, _ := alone(t, a, berth.TrainOptions{MaxSteps: x.report.Steps}); want.WeightsSHA256 != x.report.WeightsSHA256 {
			t.Error("it has other weights than alone")
		}
	})
}

// A training that takes turns says so once, also where it evaluates most of the time. One that gives its memory away before the
// evaluation of the test part ends with that, in its time.
func TestTurnsInEvaluations(t *testing.T) {
	testall.Long(t)
	c := runtest.Parsed(t, "digits", "train.epochs=1", "data.split={val: 0.1, test: 0.1}")
	want, floor, _ := alone(t, c, berth.TrainOptions{})
	d := runtest.OpenDevices(t, "cpu", floor+floor/2)
	ctx, enough := context.WithCancelCause(t.Context())
	notes, changes, newest := map[string]int{}, 0, -1
	var mu sync.Mutex
	began, other := make(chan struct{}), make(chan error, 1)
	step := func(of int) func(berth.Step) {
		return func(berth.Step) {
			mu.Lock()
			defer mu.Unlock()
			if newest != of {
				newest, changes = of, changes+1
			}
		}
	}
	var begins sync.Once
	many := runtest.OpenOn(t, d, runtest.Parsed(t, "digits", "train.epochs=100000", "train.boundary=1"))
	o := &berth.Observer{Step: func(s berth.Step) { step(0)(s); begins.Do(func() { close(began) }) }, Note: func(text string) { notes[strings.Fields(text)[0]]++ }}
	go func() {
		_, err := many.Train(ctx, berth.TrainOptions{Dir: t.TempDir(), Observer: o})
		other <- err
	}()
	<-began
	var started, over time.Time
	slow := &berth.Observer{
		Started: func(berth.Start) { started = time.Now() },
		Step: func(s berth.Step) {
			step(1)(s)
			if over.IsZero() { // ten times its first step
				over = time.Now().Add(max(time.Second, 10*time.Since(started)))
			}
		},
		Boundary: func(berth.Boundary) {
			time.Sleep(time.Until(over))
			for { // until the other one waits
				for _, u := range d.Memory().Devices[0].Tenants {
					if u.Suspended {
						return
					}
				}
				time.Sleep(time.Millisecond)
			}
		},
	}
	rep, err := runtest.OpenOn(t, d, c).Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Observer: slow, MaxTime: time.Hour})
	if err != nil || rep.WeightsSHA256 != want.WeightsSHA256 || rep.Test == nil || rep.Test.Loss != want.Test.Loss || rep.SuspendedS == 0 {
		t.Errorf("%v; or it has other weights or another test than alone, or gave no memory away", err)
	}
	enough(nil)
	if err := <-other; !errors.Is(err, berth.ErrStopped) {
		t.Error(err)
	}
	if changes < 3 || notes["takes"] != 1 || notes["waiting"] > 0 {
		t.Errorf("%d changes of turns: %v", changes, notes)
	}
}

// A save that is under way when the turn is over goes on. It has ended when a suspension returns, and its step is not saved again.
func TestSaveAtTheEndOfATurn(t *testing.T) {
	testall.Long(t)
	a := runtest.Parsed(t, "digits", "train.epochs=1000", "train.boundary=1000000", "checkpoint.every=1")
	b := runtest.Parsed(t, "digits", "train.epochs=1000", "train.batch=16")
	_, large, _ := alone(t, a, berth.TrainOptions{MaxSteps: 1})
	_, small, _ := alone(t, b, berth.TrainOptions{MaxSteps: 1})
	for name, suspends := range map[string]bool{"suspended": true, "asked for": false} {
		t.Run(name, func(t *testing.T) {
			d := runtest.OpenDevices(t, "cpu", max(2*small, large))
			first, second := runtest.OpenOn(t, d, a), runtest.OpenOn(t, d, b)
			save, begins, gives := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var mu sync.Mutex
			var begin sync.Once
			saved, newest := map[int]int{}, 0
			ended, end := context.WithCancel(t.Context())
			end()
			o := berth.TrainOptions{Dir: t.TempDir(), SaveNow: save, Observer: &berth.Observer{
				Step: func(s berth.Step) {
					mu.Lock()
					defer mu.Unlock()
					newest = s.Step
					begin.Do(func() { close(begins) })
				},
				Saved: func(s berth.Saved) {
					mu.Lock()
					defer mu.Unlock()
					saved[s.Step]++
				},
				Note: func(text string) {
					if strings.HasPrefix(text, "takes turns") {
						if suspends { // it is asked to stand still just when its turn is over
							_ = first.Suspend(ended)
						}
						close(gives)
					}
				},
			}}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done, other := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := first.Train(ctx, o)
				done <- err
			}()
			<-begins
			dir := t.TempDir()
			beside, stopOther := context.WithCancel(t.Context())
			defer stopOther()
			go func() {
				_, err := second.Train(beside, berth.TrainOptions{Dir: dir})
				other <- err
			}()
			<-gives
			if suspends {
				err := first.Suspend(soon(t))
				mu.Lock()
				if err != nil || saved[newest] != 1 {
					t.Errorf("suspended after step %d, which is saved %d times: %v", newest, saved[newest], err)
				}
				mu.Unlock()
			} else {
				save <- struct{}{}
			}
			stop()
			stopOther()
			for _, err := range []error{<-done, <-other} {
				if !errors.Is(err, berth.ErrStopped) {
					t.Error(err)
				}
			}
			for step, n := range saved {
				if n > 1 {
					t.Errorf("step %d is saved %d times", step, n)
				}
			}
		})
	}
}
