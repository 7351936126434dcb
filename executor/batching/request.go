package batching

import (
	"context"
	"slices"
	"sync"

	"github.com/berth-ml/berth/internal/panics"
)

// request is a call of Do.
type request struct {
	ctx     context.Context
	rows    []byte // of its samples
	row     int    // bytes of one
	pick    func(sample int, numbers []float32) []float32
	samples int
	taken   int           // samples that are in a batch, or were
	done    chan struct{} // closed when out or err is there

	mu    sync.Mutex // may be taken with the queue's; guards what follows
	out   []float32  // of the first samples
	given int        // their number
	early []numbers  // of later samples, which are computed already
	err   error
}

// part is samples of a request in a batch.
type part struct {
	of             *request
	first, samples int
}

// numbers are those that are kept of a part.
type numbers struct {
	part
	kept []float32
}

// give gives the request what it keeps of the numbers of the part. The last part of them, in any order, ends the request. Its
// error is a panic of the request's pick.
func (x part) give(of []float32) (err error) {
	defer panics.Keep(&err)
	r := x.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil { // nobody waits for it any more
		return nil
	}
	if x.first != r.given {
		r.early = append(r.early, numbers{x, x.pick(nil, of, x.samples)})
		return nil
	}
	r.out, r.given = x.pick(r.out, of, r.samples), r.given+x.samples
	next := func(n numbers) bool { return n.first == r.given }
	for i := slices.IndexFunc(r.early, next); i >= 0; i = slices.IndexFunc(r.early, next) {
		n := r.early[i]
		r.out, r.given = append(r.out, n.kept...), r.given+n.samples
		r.early = slices.Delete(r.early, i, i+1)
	}
	if r.given == r.samples {
		r.end()
	}
	return nil
}

// pick appends what is kept of the numbers of the part's samples. Nil gets room for as many samples as room.
func (x part) pick(to, of []float32, room int) []float32 {
	per := len(of) / x.samples
	for i := range x.samples {
		kept := x.of.pick(x.first+i, of[i*per:(i+1)*per])
		if to == nil {
			to = make([]float32, 0, len(kept)*room)
		}
		to = append(to, kept...)
	}
	return to
}

// fail ends the request with an error, unless it has ended.
func (r *request) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.done:
	default:
		r.err = err
		r.end()
	}
}

// result is what Do gives once the request has ended.
func (r *request) result() ([]float32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	return r.out, nil
}

// end ends a request, unless it has ended. Its lock is held.
func (r *request) end() {
	select {
	case <-r.done:
	default:
		close(r.done)
	}
}
