package trace

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency/ledger"
)

// Level is how much is printed for debugging.
type Level int

// The levels of BERTH_DEBUG; each includes the ones below it.
const (
	Plan  Level = 1 // devices and plan
	Steps Level = 2 // each step's time, bytes and memory
	Moves Level = 3 // every copy and its cause
)

// LevelAsked is the level that BERTH_DEBUG asks for, 0 without it.
func LevelAsked() (Level, error) {
	const name = "BERTH_DEBUG"
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > int(Moves) {
		return 0, fmt.Errorf("%w: %s=%s: expected a whole number from 0 to %d", device.ErrEnvironment, name, text, Moves)
	}
	return Level(n), nil
}

// Debug prints what its level asks for.
type Debug struct {
	Level Level
	Out   io.Writer
}

// Plan prints devices and plan.
func (d Debug) Plan(devs []device.Device, p *partition.Plan) {
	if d.Level < Plan {
		return
	}
	for _, x := range devs {
		s := x.Spec()
		fmt.Fprintf(d.Out, "%s: %s, %d threads, %d bytes\n", s.ID, s.Description, s.Threads, s.MemoryBytes)
	}
	fmt.Fprintln(d.Out, p.Table(0))
}

// Batches prints how many batches each group of devices has computed; without groups,
// all devices are one.
func (d Debug) Batches(devs []device.Device, groups [][]int, batches []int) {
	if d.Level < Plan {
		return
	}
	if groups == nil {
		groups = [][]int{nil}
		for i := range devs {
			groups[0] = append(groups[0], i)
		}
	}
	for k, n := range batches {
		list := slices.Clone(groups[k])
		slices.Sort(list)
		for i, x := range slices.Compact(list) { // a device may have several stages
			if i > 0 {
				fmt.Fprint(d.Out, ", ")
			}
			fmt.Fprint(d.Out, devs[x].ID())
		}
		fmt.Fprintf(d.Out, ": %d batches\n", n)
	}
}

// Failure prints the schedule about a failed task.
func (d Debug) Failure(task *executor.TaskError) {
	if d.Level >= Plan {
		fmt.Fprint(d.Out, task.Grid())
	}
}

// Step prints what a step took, in milliseconds, and the memory in use.
func (d Debug) Step(step int, took float32, l *ledger.Ledger, devs []device.Device) {
	if d.Level < Steps {
		return
	}
	fmt.Fprintf(d.Out, "step %d: %.3f ms; so far %d bytes in, %d out", step, took,
		l.Total(ledger.CopyIn).Bytes, l.Total(ledger.PullBack).Bytes)
	for _, x := range devs {
		fmt.Fprintf(d.Out, ", %s %d bytes live", x.ID(), x.Stats().Live)
	}
	fmt.Fprintln(d.Out)
}

// Transfers is the function to tell of each transfer, for the dump and this
// level; nil where neither wants to know.
func (d Debug) Transfers(dump *Dump) func(ledger.Row) {
	loud := d.Level >= Moves
	if dump == nil && !loud {
		return nil
	}
	return func(r ledger.Row) {
		dump.Transfer(r)
		if loud {
			fmt.Fprintf(d.Out, "step %d: %v %s %v %s->%s %d bytes, cause: %s\n",
				r.Step, r.Kind, r.Value, r.Usage, r.From, r.To, r.Bytes, r.Cause)
		}
	}
}
