package mpi

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/executor/ranks"
)

// busyTime is the CPU time of this process.
func busyTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func init() {
	// Rank 0 waits for two seconds, and prints what that takes of a core.
	parts["idle"] = func(ctx context.Context, w *World) error {
		var b [8]byte
		if w.Rank() == 1 {
			time.Sleep(2 * time.Second)
			return w.Send(0, ranks.TagBench, b[:]).Wait(ctx)
		}
		time.Sleep(200 * time.Millisecond) // what Go and MPI do at their start
		began, busy := time.Now(), busyTime()
		err := w.Recv(1, ranks.TagBench, b[:]).Wait(ctx)
		fmt.Printf("waiting took %.1f%% of a core\n", 100*float64(busyTime()-busy)/float64(time.Since(began)))
		return err
	}
}

var share = regexp.MustCompile(`waiting took ([0-9.]+)% of a core`)

// TestWaiting: a rank that waits leaves its core to others.
func TestWaiting(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		out, code := l.run(t, 2, "idle")
		found := share.FindStringSubmatch(out)
		if code != 0 || found == nil {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		t.Log(found[0])
		if v, err := strconv.ParseFloat(found[1], 64); err != nil || v > 30 { // spinning takes all of it
			t.Error(found[0])
		}
	})
}
