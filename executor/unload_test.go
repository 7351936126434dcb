package executor_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

// TestUnload: programs that are closed leave nothing behind: no records, memory or
// executables, and the weights that another program has are still there.
func TestUnload(t *testing.T) {
	j := mlpJob(3)
	j.last = 4
	r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
	step(t, r, r.prog, 0, j.batch())
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	want, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	first := r.left()
	for n := range 100 {
		if err := r.passOnce(short(t)); err != nil {
			t.Fatal(err)
		}
		switch left := r.left(); {
		case n == 0: // it has copied variables to devices that had none
			first = left
		case !slices.Equal(left, first):
			t.Fatalf("after %d programs %v are left, after the first one %v", n+1, left, first)
		}
	}
	got, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(want, got); d != "" {
		t.Error(d)
	}
	if err := errors.Join(r.prog.Close(), r.prog.Close()); err != nil {
		t.Fatal(err)
	}
	if left := r.left(); slices.Max(left) != 0 {
		t.Errorf("after the last program %v are left", left)
	}
	if _, err := r.prog.Step(short(t), executor.Batch{}); err == nil {
		t.Error("a closed program steps")
	}
}

// left counts records, bytes on the host, and bytes and executables of each device.
func (r *rig) left() []int64 {
	n := []int64{int64(r.rt.Residency.Tensors()), r.rt.Residency.HostMemory().Used}
	for _, d := range r.devs {
		s := d.Stats()
		n = append(n, s.Live, s.Executables)
	}
	return n
}

// passOnce loads the forward pass of the job, steps once and unloads it.
func (r *rig) passOnce(ctx context.Context) error {
	o, err := r.options(r.devs, "gpipe")
	if err != nil {
		return err
	}
	o.Net, o.Tail = "again", nil
	if o.Full, err = o.Full.Forward(); err != nil {
		return err
	}
	p, err := r.rt.Load(o)
	if err != nil {
		return err
	}
	b, err := r.feed(1, r.batch())
	if err == nil {
		_, err = p.Step(ctx, b)
	}
	return errors.Join(err, p.Close())
}

// TestFailedLoadLeavesNothing: a program that could not be loaded has freed all that
// it had by then.
func TestFailedLoadLeavesNothing(t *testing.T) {
	r := mustRig(t, mlpJob(2), "cpu", 1, "1f1b", residency.ManagerOptions{})
	o, err := mlpJob(2).options(r.devs, "gpipe")
	if err != nil {
		t.Fatal(err)
	}
	o.Net = "stopped"
	before := r.left()
	for n := 0; ; n++ {
		calls := 0
		o.Stop = func() error {
			if calls++; calls > n {
				return errors.New("stop")
			}
			return nil
		}
		p, err := r.rt.Load(o)
		if err == nil {
			err := p.Close()
			if left := r.left(); n == 0 || err != nil || !slices.Equal(left, before) {
				t.Errorf("after %d calls of Stop: %v, %v are left, before %v", n, err, left, before)
			}
			return
		}
		if left := r.left(); !slices.Equal(left, before) {
			t.Fatalf("stopped in call %d: %v are left, before %v", n, left, before)
		}
	}
}
