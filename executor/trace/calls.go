package trace

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/units"
)

// Calls prints the calls of a run that goes op by op as they end, a line for each,
// with its time and bytes. A nil Calls prints nothing. Calls are safe for concurrent
// use. No device waits for the log: where it is read too slowly, the run waits up to
// a second, and lines are left out then.
type Calls struct {
	out io.Writer

	mu    sync.Mutex
	lines *lines                             // nil before the first line, and after Close
	tasks map[device.Event]executor.Launched // that have not ended
	ended map[device.Queue]device.Span       // per stream, its newest launch if its task is not known yet
}

// NewCalls makes a log that prints to out.
func NewCalls(out io.Writer) *Calls {
	return &Calls{out: out, tasks: map[device.Event]executor.Launched{}, ended: map[device.Queue]device.Span{}}
}

// mostStreams bounds the streams of ended; those that are closed are forgotten.
const mostStreams = 64

// Launched is called for each task that is queued, before its stream gets another one.
func (c *Calls) Launched(x executor.Launched) {
	if c == nil {
		return
	}
	c.awaitRoom()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.ended[x.Event.Queue]; s.Event == x.Event {
		delete(c.ended, x.Event.Queue)
		c.print(x, s)
		return
	}
	c.tasks[x.Event] = x
}

// Add is called by the streams of devices, for each operation.
func (c *Calls) Add(s device.Span) {
	if c == nil || s.Stream != device.ComputeStream || s.Event == (device.Event{}) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.tasks[s.Event]; ok {
		delete(c.tasks, s.Event)
		c.print(x, s)
		return
	}
	if len(c.ended) == mostStreams {
		clear(c.ended) // of which nobody was told
	}
	c.ended[s.Event.Queue] = s
}

// Close waits until what was printed is written, or for a second. Later calls begin anew.
func (c *Calls) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	l := c.lines
	c.lines = nil
	clear(c.tasks) // those that were skipped
	clear(c.ended)
	c.mu.Unlock()
	if l != nil {
		l.end()
	}
}

// awaitRoom waits while too many lines are unwritten, unless nobody reads them.
func (c *Calls) awaitRoom() {
	c.mu.Lock()
	l := c.lines
	c.mu.Unlock()
	if l != nil {
		l.await()
	}
}

// print prints a call.
func (c *Calls) print(x executor.Launched, s device.Span) {
	if c.lines == nil {
		c.lines = startLines(c.out)
	}
	c.lines.add(call{x, s.End.Sub(s.Start)})
}

// call is a call that has ended.
type call struct {
	executor.Launched
	took time.Duration
}

// String is the call's line, "train step 1 s0.F0/fc1.matmul 81.2µs 1.1 MiB: digits.yaml:12: layer 0 …", and one for
// each result that was read.
func (x call) String() string {
	if x.Call == nil {
		return fmt.Sprintf("%s step %d %s %v", x.Net, x.Step, x.Task, x.took)
	}
	op := "copy"
	if x.Call.Node != nil {
		op = fuse.Single(x.Call.Node).Describe()
	}
	line := fmt.Sprintf("%s step %d %s %v %s: %s", x.Net, x.Step, x.Task, x.took, units.Bytes(x.Call.Bytes()), op)
	return strings.Join(append([]string{line}, x.Results...), "\n  ")
}
