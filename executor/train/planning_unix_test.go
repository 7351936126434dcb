//go:build unix

package train_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// stopwatch is a context that never ends. It measures how long this process
// computes between two questions whether it has.
type stopwatch struct {
	context.Context
	last    time.Duration // processor time at the last question; 0 before the first
	longest time.Duration
	where   string // the question at the end of longest
}

func (c *stopwatch) Err() error {
	if d := computed() - c.last; c.last > 0 && d > c.longest {
		c.longest, c.where = d, string(debug.Stack())
	}
	c.last = computed()
	return nil
}

// computed is the processor time of this process, without that of the system: with the collector off, all memory is new, and
// the system clears its pages. It does not grow while other processes run.
func computed() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano())
}

// Planning and compiling a deep model ask so often whether to stop that a signal is
// obeyed at once, wherever it comes. The limit is that of a second for ten times
// as many layers.
func TestDeepModelAsksWhetherToStop(t *testing.T) {
	const limit, gpt = runtest.Slowdown * 300 * time.Millisecond, "data: {source: text, path: builtin:shakespeare, context: 8}\n" +
		"model: {preset: gpt, layers: LAYERS, heads: 1, width: 4, context: 8}\ntrain: {epochs: 1}\noptimizer: {name: adamw, clip_norm: 1}\n"
	layers := "50"
	if testall.Wanted() {
		layers = "1000"
	}
	c, err := configs.Parse("test.yaml", []byte(strings.Replace(gpt, "LAYERS", layers, 1)), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector's time is no work between two questions
	ctx := &stopwatch{Context: t.Context()}
	run, err := berth.Open(ctx, c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if ctx.longest > limit/2 {
		t.Errorf("planning does not ask for %v:\n%s", ctx.longest, ctx.where)
	}
	if testing.Short() {
		return
	}
	runtime.GC() // now, so that training need not
	ctx.longest, ctx.last = 0, 0
	if _, err := run.Train(ctx, berth.TrainOptions{Dir: t.TempDir(), MaxSteps: 1}); err != nil {
		t.Fatal(err)
	}
	if ctx.longest > limit {
		t.Errorf("compiling, or the first step, does not ask for %v:\n%s", ctx.longest, ctx.where)
	}
}
