package trace

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/units"
)

// Calls prints the calls of a run that goes op by op as they end, a line for each,
// with its time and bytes. A nil Calls prints nothing. Calls are safe for concurrent
// use.
type Calls struct {
	Out io.Writer

	mu    sync.Mutex
	tasks map[device.Event]executor.Launched // that have not ended
	ended map[device.Event]time.Duration     // launches whose task is not known yet
}

// Launched is called for each task that is queued.
func (c *Calls) Launched(x executor.Launched) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if took, ok := c.ended[x.Event]; ok {
		delete(c.ended, x.Event)
		c.print(x, took)
		return
	}
	if c.tasks == nil {
		c.tasks = map[device.Event]executor.Launched{}
	}
	c.tasks[x.Event] = x
}

// Add is called by the streams of devices, for each operation.
func (c *Calls) Add(s device.Span) {
	if c == nil || s.Stream != device.ComputeStream || s.Event == (device.Event{}) {
		return
	}
	took := s.End.Sub(s.Start)
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.tasks[s.Event]; ok {
		delete(c.tasks, s.Event)
		c.print(x, took)
		return
	}
	if c.ended == nil {
		c.ended = map[device.Event]time.Duration{}
	}
	c.ended[s.Event] = took
}

// print prints a call: "train step 1 s0.F0/fc1.matmul 81.2µs 1.1 MiB: digits.yaml:12: layer 0 …".
func (c *Calls) print(x executor.Launched, took time.Duration) {
	if x.Call == nil {
		fmt.Fprintf(c.Out, "%s step %d %s %v\n", x.Net, x.Step, x.Task, took)
		return
	}
	op := "copy"
	if x.Call.Node != nil {
		op = fuse.Single(x.Call.Node).Describe()
	}
	fmt.Fprintf(c.Out, "%s step %d %s %v %s: %s\n", x.Net, x.Step, x.Task, took, units.Bytes(x.Call.Bytes()), op)
}
