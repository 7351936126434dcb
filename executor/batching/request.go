package batching

import (
	"context"

	"github.com/berth-ml/berth/internal/panics"
)

// request is a call of Do.
type request struct {
	ctx     context.Context
	rows    []byte // of its samples
	row     int    // bytes of one
	pick    func(sample int, numbers []float32) []float32
	samples int
	taken   int // samples that are in a batch, or were
	given   int // samples whose numbers are in out
	out     []float32
	err     error
	done    chan struct{} // closed when out or err is there
}

// part is samples of a request in a batch.
type part struct {
	of      *request
	samples int
}

// give adds what is kept of the numbers of some samples. Those of the last ones end the
// request. Its error is a panic of pick.
func (r *request) give(numbers []float32, samples int) (err error) {
	defer panics.Keep(&err)
	per := len(numbers) / samples
	for i := range samples {
		kept := r.pick(r.given, numbers[i*per:(i+1)*per])
		if r.out == nil {
			r.out = make([]float32, 0, len(kept)*r.samples)
		}
		r.out = append(r.out, kept...)
		r.given++
	}
	if r.given == r.samples {
		close(r.done)
	}
	return nil
}

// fail ends the request with an error, unless it has ended.
func (r *request) fail(err error) {
	select {
	case <-r.done:
	default:
		r.err = err
		close(r.done)
	}
}
