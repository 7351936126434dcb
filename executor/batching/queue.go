package batching

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/berth-ml/berth/internal/panics"
)

// The errors of Do, in addition to those of Options.Run and the cause of its context.
var (
	ErrFull   = errors.New("too many samples wait already")
	ErrClosed = errors.New("the queue is closed")
)

// Batch is what Options.Run computes.
type Batch struct {
	Samples int    // the bucket: the first of them are real, the rest are zeros
	Rows    []byte // of all samples; valid until Run returns
}

// Options describes a queue.
type Options struct {
	Batch   int // most samples of a batch
	Waiting int // most samples that wait. One request that finds no other waiting may have more.

	// Run computes a batch: as many numbers for each sample, in their order. One goroutine
	// calls it. Its error is that of all requests in the batch. Where it panics, each request of
	// the batch is computed once more, without the others.
	Run func(Batch) ([]float32, error)

	// Alone reports whether an error of Run may be about some of the samples only: then
	// each request of the batch is computed once more, without the others. Nil: never.
	Alone func(error) bool
}

// Queue is requests that wait for their batch. Its methods are safe for concurrent use.
type Queue struct {
	opt  Options
	wake chan struct{} // has an element when requests may have come
	quit chan struct{} // closed by Close
	done chan struct{} // closed when no batch is computed any more

	mu      sync.Mutex
	waiting []*request // in the order in which they came
	samples int        // of waiting that are in no batch yet
	closed  bool
	stats   Stats

	rows []byte // of the batch under way
}

// Stats counts what a queue has done.
type Stats struct {
	Waiting int     // samples that wait now
	Samples int64   // that were computed
	Batches []int64 // of each bucket: of 1, 2, 4, … samples, and of Options.Batch
	Expired int64   // requests whose context ended before all of their samples were in a batch
}

// New begins to compute what Do asks for. The caller closes the queue.
func New(o Options) *Queue {
	q := &Queue{opt: o, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	q.stats.Batches = make([]int64, len(Buckets(o.Batch)))
	go q.work()
	return q
}

// Buckets are the sizes of batches of at most so many samples, in ascending order.
func Buckets(batch int) (sizes []int) {
	for n := 1; n < batch; n *= 2 {
		sizes = append(sizes, n)
	}
	return append(sizes, batch)
}

// Do waits until samples have been computed, and gives their numbers. Rows are the
// samples, of row bytes each; only samples of equal row are in a batch together. pick gives
// the numbers of a sample that are kept, and nil keeps all. The queue's goroutine calls it,
// sample by sample in order. When ctx ends first, Do returns its cause, and samples that are
// in no batch yet are not computed. A panic of pick, or of Options.Run about the request's samples,
// is Do's: others get their numbers.
func (q *Queue) Do(ctx context.Context, rows []byte, row int, pick func(sample int, numbers []float32) []float32) ([]float32, error) {
	if pick == nil {
		pick = func(_ int, numbers []float32) []float32 { return numbers }
	}
	r := &request{ctx: ctx, rows: rows, row: row, pick: pick, samples: len(rows) / row, done: make(chan struct{})}
	if err := q.add(r); err != nil {
		return nil, err
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
	select {
	case <-r.done:
		panics.Raise(r.err)
		return r.out, r.err
	case <-ctx.Done():
	}
	q.mu.Lock() // the batch that takes samples of r copies them under mu
	defer q.mu.Unlock()
	q.forget(r)
	return nil, context.Cause(ctx)
}

// add puts a request behind those that wait.
func (q *Queue) add(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case r.ctx.Err() != nil:
		q.stats.Expired++
		return context.Cause(r.ctx)
	case q.samples > 0 && q.samples+r.samples > q.opt.Waiting:
		return ErrFull
	}
	q.waiting = append(q.waiting, r)
	q.samples += r.samples
	return nil
}

// forget takes a request whose context has ended out of the queue.
func (q *Queue) forget(r *request) {
	if i := slices.Index(q.waiting, r); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.samples -= r.samples - r.taken
		q.stats.Expired++
	}
}

// work computes batches until the queue is closed.
func (q *Queue) work() {
	defer close(q.done)
	for {
		select {
		case <-q.wake:
		case <-q.quit:
			q.refuseAll()
			return
		}
		for {
			parts, b, ok := q.take()
			if !ok {
				break
			}
			q.compute(parts, b)
		}
	}
}

// refuseAll fails the requests that wait when the queue is closed.
func (q *Queue) refuseAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.waiting {
		r.fail(ErrClosed)
	}
	q.waiting, q.samples = nil, 0
}

// take makes the next batch: of the request that has waited for longest, and of others
// with samples of its size. ok is false where none waits, and once the queue is closed.
func (q *Queue) take() (parts []part, b Batch, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropEnded()
	if len(q.waiting) == 0 || q.closed {
		return nil, b, false
	}
	row, n := q.waiting[0].row, 0
	q.rows = q.rows[:0]
	left := q.waiting[:0]
	for _, r := range q.waiting {
		if r.row == row && n < q.opt.Batch {
			x := part{r, min(r.samples-r.taken, q.opt.Batch-n)}
			q.rows = append(q.rows, r.rows[r.taken*row:(r.taken+x.samples)*row]...)
			parts, n, r.taken = append(parts, x), n+x.samples, r.taken+x.samples
		}
		if r.taken < r.samples {
			left = append(left, r)
		}
	}
	clear(q.waiting[len(left):])
	q.waiting, q.samples = left, q.samples-n
	q.count(n)
	return parts, q.filled(n, row), true
}

// dropEnded drops the requests whose context has ended: nobody wants their answers.
func (q *Queue) dropEnded() {
	for i := 0; i < len(q.waiting); {
		if r := q.waiting[i]; r.ctx.Err() != nil {
			q.forget(r)
		} else {
			i++
		}
	}
}

// count counts a batch of so many samples.
func (q *Queue) count(samples int) {
	q.stats.Samples += int64(samples)
	i, _ := slices.BinarySearch(Buckets(q.opt.Batch), samples)
	q.stats.Batches[i]++
}

// filled is the batch of the n samples in q.rows, with zeros up to the next bucket.
func (q *Queue) filled(n, row int) Batch {
	sizes := Buckets(q.opt.Batch)
	i, _ := slices.BinarySearch(sizes, n)
	q.rows = append(q.rows, make([]byte, (sizes[i]-n)*row)...)
	return Batch{sizes[i], q.rows}
}

// compute runs a batch, and gives each request its numbers.
func (q *Queue) compute(parts []part, b Batch) {
	out, err := q.run(b)
	if err != nil && len(parts) > 1 && q.alone(err) {
		q.apart(parts, b)
		return
	}
	per, at := 0, 0
	if err == nil {
		per = len(out) / b.Samples
	}
	for _, x := range parts {
		if err != nil {
			q.refuse(x.of, err)
			continue
		}
		if err := x.of.give(out[at*per:(at+x.samples)*per], x.samples); err != nil {
			q.refuse(x.of, err)
		}
		at += x.samples
	}
}

// run computes a batch. A panic is an error.
func (q *Queue) run(b Batch) (out []float32, err error) {
	defer panics.Keep(&err)
	return q.opt.Run(b)
}

// alone reports whether an error of a batch may be about some of its samples only.
func (q *Queue) alone(err error) bool {
	return panics.Kept(err) || q.opt.Alone != nil && q.opt.Alone(err)
}

// apart computes the parts of a batch one by one.
func (q *Queue) apart(parts []part, b Batch) {
	row, at := len(b.Rows)/b.Samples, 0
	all := slices.Clone(b.Rows)
	for _, x := range parts {
		q.rows = append(q.rows[:0], all[at*row:(at+x.samples)*row]...)
		q.compute([]part{x}, q.filled(x.samples, row))
		at += x.samples
	}
}

// refuse fails a request, of which samples may still wait.
func (q *Queue) refuse(r *request, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, r); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.samples -= r.samples - r.taken
	}
	r.fail(err)
}

// Stats says what the queue has done so far.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Waiting, s.Batches = q.samples, slices.Clone(s.Batches)
	return s
}

// Close waits for the batch under way. Requests that wait fail with ErrClosed, as later
// ones do.
func (q *Queue) Close() {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	q.mu.Unlock()
	if first {
		close(q.quit)
	}
	<-q.done
}
