package trace_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/trace"
)

// stream stands for a stream.
type stream struct{ device.Queue }

// at is a launch of a stream and its task.
func at(q *stream, seq uint64) (device.Span, executor.Launched) {
	e, zero := device.Event{Queue: q, Seq: seq}, time.Unix(0, 0)
	return device.Span{Stream: device.ComputeStream, Event: e, Start: zero, End: zero.Add(time.Duration(seq) * time.Microsecond)},
		executor.Launched{Event: e, Net: "train", Step: 1, Task: fmt.Sprint("s0.F", seq)}
}

// A call is printed when it has ended and its task is known, in either order. Launches
// whose task nobody tells are forgotten.
func TestCalls(t *testing.T) {
	var out strings.Builder
	c, q := trace.NewCalls(&out), &stream{}
	for seq := uint64(1); seq <= 9; seq++ {
		s, x := at(q, seq)
		switch seq % 3 {
		case 0:
			c.Launched(x)
			c.Add(s)
		case 1:
			c.Add(s)
			c.Launched(x)
		case 2:
			c.Add(s)
		}
	}
	c.Close()
	want := ""
	for _, seq := range []int{1, 3, 4, 6, 7, 9} {
		want += fmt.Sprintf("train step 1 s0.F%d %dµs\n", seq, seq)
	}
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
}

// stuck is a reader that does not read before it is released.
type stuck struct {
	release chan struct{}
	strings.Builder
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.release
	return s.Builder.Write(b)
}

// A log that nobody reads keeps no device, and the run for about a second. What is left
// out is counted.
func TestCallsThatNobodyReads(t *testing.T) {
	out := &stuck{release: make(chan struct{})}
	c, q := trace.NewCalls(out), &stream{}
	const calls = 20000
	begun := time.Now()
	for seq := uint64(1); seq <= calls; seq++ {
		s, x := at(q, seq)
		c.Launched(x)
		c.Add(s)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the run waited for %v", took)
	}
	close(out.release)
	c.Close()
	var left int
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines {
		var n int
		if _, err := fmt.Sscanf(line, "(%d calls are left out", &n); err == nil {
			left += n - 1 // the line itself
		}
	}
	if left == 0 || len(lines)+left != calls {
		t.Errorf("%d lines and %d left out, of %d", len(lines), left, calls)
	}
}

// full stands for a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// A log that cannot be written ends no run.
func TestCallsThatCannotBeWritten(t *testing.T) {
	c, q := trace.NewCalls(full{}), &stream{}
	for range 2 {
		s, x := at(q, 1)
		c.Launched(x)
		c.Add(s)
		c.Close()
	}
}
