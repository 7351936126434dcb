package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// TestSuspendedCrowd: two or three trainings on one or two devices with little memory are suspended, go on, save
// and end at random moments. Each ends with the weights that it has alone.
func TestSuspendedCrowd(t *testing.T) {
	config := runtest.Parsed(t, "digits", "train.epochs=2", "train.batch=90", "train.microbatches=6", "schedule.warmup=0", "checkpoint.every=7")
	rep, floor, peak := alone(t, config, berth.TrainOptions{})
	suspended, spilled := 0, int64(0)
	rapid.Check(t, func(t *rapid.T) {
		memory := rapid.Int64Range(floor*9/8, 2*peak).Draw(t, "memory")
		c := newCrowd(t, config, rep.WeightsSHA256, memory)
		defer c.close()
		for range rapid.IntRange(5, 40).Draw(t, "actions") {
			c.act(rapid.SampledFrom(c.runs).Draw(t, "run"))
		}
		c.finish()
		suspended, spilled = suspended+c.suspended, spilled+c.spilled
	})
	t.Logf("%d suspensions, %d bytes left a device", suspended, spilled)
	if testall.Wanted() && (suspended == 0 || spilled == 0) { // few cases may have none
		t.Errorf("%d suspensions, %d bytes left a device: nothing is shown", suspended, spilled)
	}
}

var errEnough = errors.New("the test has enough")

// crowd is trainings of one config on shared devices.
type crowd struct {
	t       *rapid.T
	devices *berth.Devices
	runs    []*crowded
	want    string // the hash of the weights

	suspended int
	spilled   int64 // bytes
}

// crowded is one of them.
type crowded struct {
	run    *berth.Run
	dir    string
	save   chan struct{}
	stop   context.CancelCauseFunc
	ended  chan error // nil: it has ended well
	saved  bool       // its folder has a checkpoint
	report *berth.Report
}

func newCrowd(t *rapid.T, config *configs.Config, want string, memory int64) *crowd {
	n := rapid.IntRange(1, 2).Draw(t, "devices")
	d, err := berth.OpenDevices(configs.Devices{Use: fmt.Sprintf("cpu:%d", n), Memory: configs.Memory{Bytes: memory}}, berth.DevicesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, devices: d, want: want}
	uses := [][]device.ID{nil, {"cpu:0"}, {device.ID(fmt.Sprintf("cpu:%d", n-1))}}
	for i := range rapid.IntRange(2, 3).Draw(t, "trainings") {
		r, err := berth.Open(context.Background(), config, berth.OpenOptions{Devices: d, Use: rapid.SampledFrom(uses).Draw(t, "use")})
		if err != nil {
			t.Fatal(err)
		}
		x := &crowded{run: r, save: make(chan struct{}, 1)}
		if x.dir, err = os.MkdirTemp("", "crowd"); err != nil {
			t.Fatal(err)
		}
		c.runs = append(c.runs, x)
		if i == 0 && rapid.Bool().Draw(t, "suspended before") {
			c.suspend(x)
		}
		x.begin()
	}
	return c
}

// begin trains, or goes on after an end.
func (x *crowded) begin() {
	ctx, stop := context.WithCancelCause(context.Background())
	ended, o := make(chan error, 1), berth.TrainOptions{Dir: x.dir, Resume: x.saved, SaveNow: x.save, AssertResident: true}
	x.stop, x.ended = stop, ended
	go func() {
		var err error
		x.report, err = x.run.Train(ctx, o)
		ended <- err
	}()
}

// act does something to a training.
func (c *crowd) act(x *crowded) {
	switch rapid.SampledFrom([]string{"suspend", "suspend", "continue", "save", "stop", "wait"}).Draw(c.t, "action") {
	case "suspend":
		c.suspend(x)
	case "continue":
		if err := x.run.Continue(); err != nil {
			c.t.Error(err)
		}
	case "save":
		select {
		case x.save <- struct{}{}:
		default:
		}
	case "stop":
		x.stop(errEnough)
	case "wait":
		time.Sleep(time.Duration(rapid.IntRange(0, 3000).Draw(c.t, "µs")) * time.Microsecond)
	}
	select {
	case err := <-x.ended:
		c.end(x, err)
	default:
	}
}

// suspend suspends a training, and wants nothing of it to run then.
func (c *crowd) suspend(x *crowded) {
	ctx, cancel := context.WithTimeout(context.Background(), runtest.Slowdown*time.Minute)
	defer cancel()
	if err := x.run.Suspend(ctx); err != nil {
		c.t.Fatalf("%v", err)
	}
	c.suspended++
}

// end takes the end of a training in. One that was stopped begins again, or goes on.
func (c *crowd) end(x *crowded, err error) {
	x.ended = nil
	if x.report != nil {
		x.saved = true
		c.spilled += x.report.Ledger.SpillBytes
	}
	switch {
	case err == nil && x.report.WeightsSHA256 != c.want:
		c.t.Fatalf("weights %s, alone %s", x.report.WeightsSHA256, c.want)
	case err == nil:
	case errors.Is(err, berth.ErrStopped) && errors.Is(err, errEnough):
		x.begin()
	default:
		c.t.Fatalf("a training: %v", err)
	}
}

// finish lets all trainings end.
func (c *crowd) finish() {
	for _, x := range c.runs {
		if err := x.run.Continue(); err != nil {
			c.t.Error(err)
		}
	}
	for _, x := range c.runs {
		for x.ended != nil {
			select {
			case err := <-x.ended:
				c.end(x, err)
			case <-time.After(runtest.Slowdown * time.Minute):
				c.t.Fatalf("a training does not end")
			}
		}
	}
}

// close closes all, also after a failure.
func (c *crowd) close() {
	var errs []error
	for _, x := range c.runs {
		if x.ended != nil {
			errs = append(errs, x.run.Continue())
			x.stop(errEnough)
			<-x.ended
		}
		errs = append(errs, x.run.Close(), os.RemoveAll(x.dir))
	}
	if err := errors.Join(append(errs, c.devices.Close())...); err != nil {
		c.t.Error(err)
	}
}
