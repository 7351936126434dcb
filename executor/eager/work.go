package eager

import "github.com/berth-ml/berth/engine/device"

// work is an op that waits in a lane. The handles of its results point to its outcome.
type work struct {
	outcome
	era     *era
	what    string // the op's kind or "to host", for errors
	loc     Location
	entry   *entry
	args    []*record // with one use each; nil once launched
	after   *Chain
	results []Tensor
	long    bool // it may take long, or wait for other than calls of the lane
	event   device.Event

	// Room for the usual call, so that it is one allocation.
	argRoom    [4]*record
	resultRoom [2]Tensor
}

// expect makes the handles of the results, each with one reference for the
// caller and a use until it is launched. It needs the home's mu.
func (w *work) expect(outs []*pool) error {
	w.results = w.resultRoom[:0]
	for _, p := range outs {
		r, err := w.home.memory.take(w.home, p)
		if err != nil {
			return err
		}
		r.refs, r.uses, r.made = 1, 1, &w.outcome
		w.results = append(w.results, Tensor{r, r.gen})
	}
	return nil
}

// unuse ends the use of the arguments.
func (w *work) unuse() {
	for _, a := range w.args {
		a.unuse()
	}
	w.args = nil
	w.argRoom = [len(w.argRoom)]*record{}
}

// waits reports whether the call waits for one that is not in its lane. It needs the home's
// mu.
func (w *work) waits() bool {
	if w.after != nil && !w.after.made.done() {
		return true
	}
	for _, a := range w.args {
		if a.made != nil && a.made.home != w.home {
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
	for _, a := range w.args {
		if a.maker() == &p.outcome {
			return true
		}
	}
	return false
}
