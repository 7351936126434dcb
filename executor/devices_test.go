package executor_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency"
)

// sharing is several jobs on the same devices.
type sharing struct {
	jobs    []job
	devices int
	percent int64 // memory of a device, of the most that one of the jobs takes there
	faults  []faults.Fault
	faulty  []device.Device // of the last run
}

// peak is the most memory that one of the jobs takes on a device.
func (s *sharing) peak() (peak int64, err error) {
	devs, err := openDevices("cpu", s.devices, 1)
	if err != nil {
		return 0, err
	}
	defer closeAll(devs)
	for _, j := range s.jobs {
		j.estimated, j.memory = true, 0
		o, err := j.options(devs, "1f1b")
		if err != nil {
			return 0, err
		}
		for _, f := range o.Full.Memory {
			peak = max(peak, f.Peak)
		}
	}
	return peak, nil
}

// open opens the devices.
func (s *sharing) open() (devs []device.Device, shared *executor.Devices, err error) {
	peak, err := s.peak()
	if err != nil {
		return nil, nil, err
	}
	bytes := make([]int64, s.devices)
	for i := range bytes {
		bytes[i] = peak * s.percent / 100
	}
	if devs, err = openSized(bytes, 1); err != nil {
		return nil, nil, err
	}
	s.faulty, err = faults.Wrap(devs, s.faults)
	if err == nil {
		shared, err = executor.NewDevices(s.faulty, residency.ManagerOptions{})
	}
	return devs, shared, err
}

// join loads a job as a tenant of that name. It waits for the job's floors.
func join(ctx context.Context, j job, devs []device.Device, shared *executor.Devices, name string) (*rig, error) {
	j.estimated = true
	r := &rig{job: j, devs: devs}
	opt, err := j.options(devs, "1f1b")
	if err != nil {
		return r, err
	}
	o := residency.TenantOptions{Name: name, Floors: make([]int64, len(devs)), Peaks: make([]int64, len(devs))}
	for _, f := range opt.Full.Memory {
		o.Floors[f.Device], o.Peaks[f.Device] = f.Floor, f.Peak
	}
	if r.rt, err = shared.Join(ctx, executor.JoinOptions{Tenant: o}); err != nil {
		return r, err
	}
	if r.prog, err = r.rt.Load(opt); err != nil {
		return r, err
	}
	return r, r.fill()
}

// leave closes the runtime, and frees the batches.
func (r *rig) leave() (err error) {
	if r.rt != nil {
		err = r.rt.Close()
	}
	for _, hb := range r.bufs {
		err = errors.Join(err, hb.Free())
	}
	return err
}

// empty closes the devices, which must be empty.
func empty(devs []device.Device, shared *executor.Devices) error {
	errs := []error{shared.Close()}
	for _, d := range devs {
		if s := d.Stats(); s.Live != 0 || s.Executables != 0 {
			errs = append(errs, fmt.Errorf("%s has %d bytes and %d executables left", d.ID(), s.Live, s.Executables))
		}
	}
	return errors.Join(append(errs, closeAll(devs))...)
}

// train trains all jobs at once, each for an epoch, from goroutines of their own.
func (s *sharing) train(ctx context.Context) ([]map[string][]byte, error) {
	devs, shared, err := s.open()
	if err != nil {
		return nil, err
	}
	got, errs := make([]map[string][]byte, len(s.jobs)), make([]error, len(s.jobs))
	var wg sync.WaitGroup
	for i, j := range s.jobs {
		wg.Go(func() {
			r, err := join(ctx, j, devs, shared, fmt.Sprint("job", i))
			if err == nil {
				err = r.run(ctx)
			}
			if err == nil {
				got[i], err = r.vars(ctx)
			}
			errs[i] = errors.Join(err, r.leave())
		})
	}
	wg.Wait()
	return got, errors.Join(append(errs, empty(devs, shared))...)
}

// alone is the variables of each job, trained alone.
func (s *sharing) alone() (want []map[string][]byte, err error) {
	for _, j := range s.jobs {
		devs, err := openDevices("cpu", 1, 1)
		if err != nil {
			return nil, err
		}
		j.memory = 0
		vars, err := trained(j, devs, "1f1b", residency.ManagerOptions{})
		if err != nil {
			return nil, err
		}
		want = append(want, vars)
	}
	return want, nil
}

// TestSharedDevices: trainings at once on shared devices end with the weights that
// they have alone, also where they have room for one of them only.
func TestSharedDevices(t *testing.T) {
	t.Parallel()
	for i, jobs := range [][]job{{mlpJob(4), cnnJob(3)}, {gptJob(2), mlpJob(4), cnnJob(3)}} {
		s := sharing{jobs: jobs}
		want, err := s.alone()
		if err != nil {
			t.Fatal(err)
		}
		for s.devices = 1; s.devices <= 2; s.devices++ {
			if s.devices != i+1 && !testall.Wanted() {
				continue
			}
			for _, s.percent = range []int64{150, 120, 100} {
				got, err := s.train(short(t))
				if err != nil {
					t.Fatalf("%d jobs, %d devices, %d%%: %v", len(jobs), s.devices, s.percent, err)
				}
				for i := range jobs {
					if d := differ(want[i], got[i]); d != "" {
						t.Errorf("%d jobs, %d devices, %d%%: job %d: %s", len(jobs), s.devices, s.percent, i, d)
					}
				}
			}
		}
	}
}

// TestRandomSharing does the same with random jobs, devices and limits.
func TestRandomSharing(t *testing.T) {
	t.Parallel()
	cases := 0
	rapid.Check(t, func(rt *rapid.T) {
		if cases++; cases > testall.Or(4, 1000) {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		s := sharing{devices: rapid.IntRange(1, 3).Draw(rt, "devices"), percent: rapid.Int64Range(100, 200).Draw(rt, "percent")}
		for range rapid.IntRange(2, 3).Draw(rt, "jobs") {
			j := drawJob(rt)
			j.memory = rapid.SampledFrom([]int{0, 60}).Draw(rt, "plan's memory") // small floors run at once
			s.jobs = append(s.jobs, j)
		}
		want, err := s.alone()
		if err != nil {
			rt.Fatal(err)
		}
		got, err := s.train(ctx)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range s.jobs {
			if d := differ(want[i], got[i]); d != "" {
				rt.Errorf("job %d: %s", i, d)
			}
		}
	})
}

// TestFaultsStayWithTheirJob: an operation that fails for one training leaves the
// steps and the checkpoint of the other one right.
func TestFaultsStayWithTheirJob(t *testing.T) {
	t.Parallel()
	s := sharing{jobs: []job{mlpJob(2), cnnJob(2)}, devices: 2, percent: 130}
	want, err := s.alone()
	if err != nil {
		t.Fatal(err)
	}
	every := testall.Or(19, 1)
	for _, op := range []faults.Op{faults.Launch, faults.CopyIn, faults.CopyOut, faults.Peer, faults.Alloc} {
		failures := 0
		for n := 1; n == 1 || len(faults.Missed(s.faulty)) == 0; n += every {
			s.faults = []faults.Fault{{Device: "cpu:0", Op: op, N: n, Kind: faults.Fail}}
			failed, err := s.alternate(short(t), want)
			if err != nil {
				t.Fatalf("%v: %v", s.faults[0], err)
			}
			failures += failed
		}
		if failures == 0 && op == faults.Launch { // other operations are tried again
			t.Errorf("no %s failed", op)
		}
	}
}

// TestLostDeviceEndsItsTrainings: the trainings of a device that is lost or hangs
// end with an error, and everything closes.
func TestLostDeviceEndsItsTrainings(t *testing.T) {
	t.Parallel()
	for _, kind := range []faults.Kind{faults.Lost, faults.Hang} {
		s := sharing{jobs: []job{mlpJob(2), cnnJob(2)}, devices: 2, percent: 130}
		s.faults = []faults.Fault{{Device: "cpu:0", Op: faults.Launch, N: 5, Kind: kind}}
		devs, shared, err := s.open()
		if err != nil {
			t.Fatal(err)
		}
		var rigs []*rig
		for i, j := range s.jobs {
			r, err := join(short(t), j, devs, shared, fmt.Sprint("job", i))
			if err != nil {
				t.Fatal(err)
			}
			r.rt.Watch(executor.WatchOptions{Timeout: 50 * time.Millisecond})
			rigs = append(rigs, r)
		}
		for i, r := range rigs {
			if err := r.run(short(t)); !errors.Is(err, device.ErrLost) {
				t.Errorf("%s: job %d: %v", kind, i, err)
			}
		}
		for _, r := range rigs {
			_ = r.leave() // failures that were reported
		}
		_ = errors.Join(shared.Close(), closeAll(devs)) // likewise
	}
}

// alternate takes steps of the jobs in turn. At most one of them may fail, with the
// injected fault; the others must end with the weights that are wanted. It returns
// the number of failures.
func (s *sharing) alternate(ctx context.Context, want []map[string][]byte) (failed int, err error) {
	devs, shared, err := s.open()
	if err != nil {
		return 0, err
	}
	rigs, errs := make([]*rig, len(s.jobs)), make([]error, len(s.jobs))
	for i, j := range s.jobs {
		rigs[i], errs[i] = join(ctx, j, devs, shared, fmt.Sprint("job", i))
	}
	for at := range rigs[0].epoch() {
		for i, r := range rigs {
			if errs[i] == nil {
				errs[i] = r.stepOnce(ctx, at)
			}
		}
	}
	for i, r := range rigs {
		if errs[i] == nil {
			errs[i] = r.prog.Drain(ctx)
		}
		var got map[string][]byte
		if errs[i] == nil {
			got, errs[i] = r.vars(ctx)
		}
		switch d := differ(want[i], got); {
		case errors.Is(errs[i], faults.ErrInjected):
			failed++
		case errs[i] != nil:
			err = errors.Join(err, fmt.Errorf("job %d: %w", i, errs[i]))
		case d != "":
			err = errors.Join(err, fmt.Errorf("job %d: %s", i, d))
		}
	}
	if failed > 1 {
		err = errors.Join(err, fmt.Errorf("%d jobs failed: %w", failed, errors.Join(errs...)))
	}
	for _, r := range rigs {
		if e := r.leave(); e != nil && !errors.Is(e, faults.ErrInjected) {
			err = errors.Join(err, e)
		}
	}
	return failed, errors.Join(err, empty(devs, shared))
}

// stepOnce queues step i of the epoch.
func (r *rig) stepOnce(ctx context.Context, i int) error {
	b, err := r.feed(i, r.epoch()[i])
	if err == nil {
		_, err = r.prog.Step(ctx, b)
	}
	return err
}

// TestJoinEnds: waiting for memory ends with the context, and a floor that never
// fits is refused with both numbers.
func TestJoinEnds(t *testing.T) {
	devs, err := openSized([]int64{1 << 16}, 1)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := executor.NewDevices(devs, residency.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := shared.Join(t.Context(), executor.JoinOptions{Tenant: residency.TenantOptions{Name: "a", Floors: []int64{1 << 15}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := shared.Join(ctx, executor.JoinOptions{Tenant: residency.TenantOptions{Name: "b", Floors: []int64{1<<15 + 1}}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a floor that does not fit now: %v", err)
	}
	if _, err := shared.Join(t.Context(), executor.JoinOptions{Tenant: residency.TenantOptions{Name: "c", Floors: []int64{1<<16 + 1}}}); !errors.Is(err, residency.ErrBudget) {
		t.Errorf("a floor that never fits: %v", err)
	}
	if err := errors.Join(a.Close(), empty(devs, shared)); err != nil {
		t.Error(err)
	}
}
