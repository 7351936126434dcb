package mpi

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/internal/testall"
)

// busyTime is the CPU time of this process.
func busyTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// allocations is their number since the process began.
func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// trickle is the number of messages that come one by one.
const trickle = 100

func init() {
	// Rank 0 waits for two seconds, and prints what that takes of a core: first for one message, with all that come
	// later posted, and then for each of these.
	parts["idle"] = func(ctx context.Context, w *World) error {
		var b [trickle][8]byte
		if w.Rank() == 1 {
			time.Sleep(time.Second)
			for i := range b {
				if err := w.Send(0, ranks.TagBench, b[i][:]).Wait(ctx); err != nil {
					return err
				}
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}
		time.Sleep(200 * time.Millisecond) // what Go and MPI do at their start
		var received [trickle]device.Event
		for i := range b {
			received[i] = w.Recv(1, ranks.TagBench, b[i][:])
		}
		for _, to := range []int{0, trickle - 1} {
			began, busy, allocated := time.Now(), busyTime(), allocations()
			if err := received[to].Wait(ctx); err != nil {
				return err
			}
			fmt.Printf("waiting took %.1f%% of a core and %d allocations\n", 100*float64(busyTime()-busy)/float64(time.Since(began)), allocations()-allocated)
		}
		return nil
	}
}

// rounds is the number of sums that are counted.
const rounds = 300

func init() {
	// Both ranks sum vectors of several messages, and print what that allocates.
	parts["steady"] = func(ctx context.Context, w *World) error {
		x := make([]float32, 600_000)
		sums := ranks.NewReduction(w, len(x), func(y, a, b []float32) {
			for i := range y {
				y[i] = a[i] + b[i]
			}
		})
		var before uint64
		for i := range rounds + 10 {
			if i == 10 {
				before = allocations()
			}
			if err := sums.Sum(ctx, x); err != nil {
				return err
			}
		}
		fmt.Printf("sums took %d allocations\n", allocations()-before)
		return nil
	}
}

var taken = regexp.MustCompile(`sums took (\d+) allocations`)

// TestSumAllocates: a sum allocates nothing, neither in MPI's thread nor outside.
func TestSumAllocates(t *testing.T) {
	if testall.Race {
		t.Skip("the race detector allocates")
	}
	each(t, func(t *testing.T, l launcher) {
		out, code := l.run(t, 2, "steady")
		found := taken.FindAllStringSubmatch(out, -1)
		if code != 0 || len(found) != 2 {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		for _, f := range found {
			if n, err := strconv.Atoi(f[1]); err != nil || n >= rounds { // the Go runtime has some tens for waiters
				t.Errorf("%d %s", rounds, f[0])
			}
			t.Log(f[0])
		}
	})
}

var share = regexp.MustCompile(`waiting took ([0-9.]+)% of a core and (\d+) allocations`)

// TestWaiting: a rank that waits leaves its core to others, also where it waits for many messages and one ends now
// and then. It asks some thousand times, and allocates nothing for that.
func TestWaiting(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		out, code := l.run(t, 2, "idle")
		found := share.FindAllStringSubmatch(out, -1)
		if code != 0 || len(found) != 2 {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		for _, f := range found {
			t.Log(f[0])
			if v, err := strconv.ParseFloat(f[1], 64); err != nil || v > 15 { // spinning takes all of it
				t.Error(f[0])
			}
			most := 300 // where each question allocated, there were 700 and more
			if testall.Race {
				most = 2500 // the detector's own, for each message
			}
			if n, err := strconv.Atoi(f[2]); err != nil || n > most {
				t.Error(f[0])
			}
		}
	})
}
