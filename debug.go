package berth

import (
	"fmt"
	"os"
	"strconv"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// Levels of BERTH_DEBUG; each includes the ones below it. All of it goes to
// standard error.
const (
	debugPlan  = 1 // devices and plan
	debugSteps = 2 // each step's time, bytes and memory
	debugSync  = 3 // every operation ends before the next is queued, so that a failure names itself
	debugMoves = 4 // every copy and its cause
)

// debugLevel is what BERTH_DEBUG asks for, 0 where it says nothing.
func debugLevel() (int, error) {
	const name = "BERTH_DEBUG"
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > debugMoves {
		return 0, fmt.Errorf("%w: %s=%s: expected a whole number from 0 to %d", device.ErrEnvironment, name, text, debugMoves)
	}
	return n, nil
}

// debugPlan prints devices and plan.
func (t *trainer) debugPlan() {
	if t.debug < debugPlan {
		return
	}
	for _, d := range t.devs {
		s := d.Spec()
		fmt.Fprintf(os.Stderr, "%s: %s, %d threads, %d bytes\n", s.ID, s.Description, s.Threads, s.MemoryBytes)
	}
	fmt.Fprintln(os.Stderr, t.Plan.Table())
}

// debugStep prints what a step took.
func (t *trainer) debugStep(step int) {
	if t.debug < debugSteps {
		return
	}
	l := t.rt.Residency.Ledger()
	fmt.Fprintf(os.Stderr, "step %d: %.3f ms; so far %d bytes in, %d out", step, t.clock.newest(),
		l.Total(residency.CopyIn).Bytes, l.Total(residency.PullBack).Bytes)
	for _, d := range t.devs {
		fmt.Fprintf(os.Stderr, ", %s %d bytes live", d.ID(), d.Stats().Live)
	}
	fmt.Fprintln(os.Stderr)
}

// onTransfer is who is told of each transfer: the dump, and people who debug.
func (t *trainer) onTransfer() func(residency.Row) {
	loud := t.debug >= debugMoves
	if t.dump == nil && !loud {
		return nil
	}
	return func(r residency.Row) {
		t.dump.row(r)
		if loud {
			fmt.Fprintf(os.Stderr, "step %d: %v %s %v %s->%s %d bytes, cause: %s\n",
				r.Step, r.Kind, r.Value, r.Usage, r.From, r.To, r.Bytes, r.Cause)
		}
	}
}
