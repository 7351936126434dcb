package eager

import "github.com/berth-ml/berth/engine/device"

// work is an op that waits in a lane. The handles of its results point to its outcome.
type work struct {
	outcome
	era     *era
	what    string // the op's kind or "to host", for errors
	loc     Location
	entry   *entry
	args    []Tensor // with one use each; nil once launched
	after   *Chain
	results []Tensor
	long    bool // it may take long, or wait for other than calls of the lane
	event   device.Event

	// Room for the usual call, so that it is one allocation.
	argRoom    [4]Tensor
	resultRoom [2]Tensor
}

// unuse ends the use of the arguments.
func (w *work) unuse() {
	for _, x := range w.args {
		x.rec.unuse()
	}
	w.args = nil
	w.argRoom = [len(w.argRoom)]Tensor{}
}

// waits reports whether the call waits for one that is not in its lane. It needs the home's
// mu.
func (w *work) waits() bool {
	if w.after != nil && !w.after.made.done() {
		return true
	}
	for _, x := range w.args {
		if made := x.rec.made; made != nil && made.home != w.home {
			return true
		}
	}
	return false
}

// follows reports whether the call depends on p directly.
func (w *work) follows(p *work) bool {
	if w.after != nil && w.after.made == &p.outcome {
		return true
	}
	for _, x := range w.args {
		if x.rec.maker() == &p.outcome {
			return true
		}
	}
	return false
}
