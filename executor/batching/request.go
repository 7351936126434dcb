package batching

import (
	"context"
	"slices"

	"github.com/berth-ml/berth/internal/panics"
)

// request is a call of Do.
type request struct {
	ctx     context.Context
	rows    []byte // of its samples
	row     int    // bytes of one
	pick    func(sample int, numbers []float32) []float32
	samples int
	taken   int       // samples that are in a batch, or were
	pieces  []numbers // of samples that are computed
	out     []float32
	err     error
	done    chan struct{} // closed when out or err is there
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

// pick is what is kept of the numbers of the part's samples. Its error is a panic of the request's pick.
func (x part) pick(of []float32) (kept []float32, err error) {
	defer panics.Keep(&err)
	per := len(of) / x.samples
	for i := range x.samples {
		more := x.of.pick(x.first+i, of[i*per:(i+1)*per])
		if kept == nil {
			kept = make([]float32, 0, len(more)*x.samples)
		}
		kept = append(kept, more...)
	}
	return kept, nil
}

// give gives the request the numbers of the part. The last part of them, in any order, ends the request. The queue's
// lock is held.
func (x part) give(kept []float32) {
	r := x.of
	r.pieces = append(r.pieces, numbers{x, kept})
	n, all := 0, 0
	for _, p := range r.pieces {
		n, all = n+p.samples, all+len(p.kept)
	}
	switch {
	case n < r.samples:
		return
	case len(r.pieces) == 1:
		r.out = kept
	default:
		slices.SortFunc(r.pieces, func(a, b numbers) int { return a.first - b.first })
		r.out = make([]float32, 0, all)
		for _, p := range r.pieces {
			r.out = append(r.out, p.kept...)
		}
	}
	r.pieces = nil
	r.end()
}

// fail ends the request with an error, unless it has ended. The queue's lock is held.
func (r *request) fail(err error) {
	select {
	case <-r.done:
	default:
		r.err = err
		r.end()
	}
}

// end ends a request, unless it has failed.
func (r *request) end() {
	select {
	case <-r.done:
	default:
		close(r.done)
	}
}
