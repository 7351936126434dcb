package jobs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/jobs/queue"
)

// losing is a daemon on so many cpu devices, the last of which is lost with its nth operation.
func losing(t *testing.T, dir string, devices, n int, op fault.Op) running {
	t.Helper()
	use := configs.Devices{Use: fmt.Sprint("cpu:", devices)}
	d, err := Open(Options{Queue: filepath.Join(dir, "queue.db"), Devices: use, Told: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	f := fault.Fault{Device: device.ID(fmt.Sprint("cpu:", devices-1)), Op: op, N: n, Kind: fault.Lost}
	lossy, err := berth.OpenDevices(use, berth.DevicesOptions{Faults: []fault.Fault{f}})
	if err := errors.Join(err, d.owned.Close()); err != nil {
		t.Fatal(err)
	}
	d.owned = lossy
	t.Cleanup(func() { _ = d.Close() })
	run(t, d)
	return running{d, func() {}}
}

// TestLostDevice: a job whose device is lost goes on with another one, which it shares with the job there, and that
// uses up none of its retries. Where none is left, it waits.
func TestLostDevice(t *testing.T) {
	retrySoon(t)
	config := text(t, "train.epochs=6")
	want := alone(t, config)
	for n, op := range map[int]fault.Op{3: fault.CopyIn, 100: fault.Launch, 4: fault.CopyOut} {
		t.Run(string(op), func(t *testing.T) {
			dir := t.TempDir()
			d := losing(t, dir, 2, n, op)
			ids := []int{d.submit(t, dir, "a", config), d.submit(t, dir, "b", config)}
			for _, id := range ids {
				v := d.await(t, id)
				if v.State != queue.Finished || hash(t, v.Dir) != want {
					t.Errorf("job %d is %s: %+v", id, v.State, v.Attempts)
				}
			}
			if d.Devices() != "cpu:0" {
				t.Errorf("left are %s: the fault did not happen", d.Devices())
			}
		})
	}
	t.Run("at the end", func(t *testing.T) { // with the last copy that it makes
		dir := t.TempDir()
		d := losing(t, dir, 1, 1<<30, fault.CopyOut)
		d.await(t, d.submit(t, dir, "a", config))
		missed := d.owned.Missed()
		if len(missed) != 1 {
			t.Fatalf("missed: %q", missed)
		}
		copies, err := strconv.Atoi(missed[0][strings.LastIndex(missed[0], " ")+1:])
		if err != nil {
			t.Fatal(err)
		}
		dir = t.TempDir()
		d = losing(t, dir, 1, copies, fault.CopyOut)
		id := d.submit(t, dir, "a", config)
		d.until(t, id, func(v View) bool {
			return v.State == queue.Waiting && strings.Contains(v.Where, "needs 1 cpu: there are fewer")
		})
	})
	t.Run("the only one", func(t *testing.T) {
		dir := t.TempDir()
		d := losing(t, dir, 1, 50, fault.Launch)
		id := d.submit(t, dir, "a", config)
		d.until(t, id, func(v View) bool {
			return v.State == queue.Waiting && strings.Contains(v.Where, "needs 1 cpu: there are fewer")
		})
		_, err := d.Submit(t.Context(), Submission{Key: "b", Config: config, Parent: dir})
		if !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "this daemon has 0") {
			t.Errorf("a submission without a device: %v", err)
		}
	})
}

// TestOnlyDeviceLost: a daemon of one job ends once the devices for it are lost; the job waits for another daemon.
func TestOnlyDeviceLost(t *testing.T) {
	retrySoon(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	l, err := OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	j, err := l.Submit(t.Context(), Submission{Key: "a", Config: text(t), Parent: dir, Retries: 2})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	d, err := OpenFor(j.ID, Options{Queue: path})
	if err != nil {
		t.Fatal(err)
	}
	lossy, err := berth.OpenDevices(configs.Devices{Use: "cpu:1"}, berth.DevicesOptions{Faults: []fault.Fault{{Device: "cpu:0", Op: fault.Launch, N: 50, Kind: fault.Lost}}})
	if err := errors.Join(err, d.owned.Close()); err != nil {
		t.Fatal(err)
	}
	d.owned = lossy
	defer func() { _ = d.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if v, err := d.RunOnly(ctx, j.ID); err != nil || ctx.Err() != nil || v.State != queue.Waiting {
		t.Errorf("%s, %v, %v", v.State, err, ctx.Err())
	}
}
