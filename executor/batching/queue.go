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
	Real    int    // samples that are no zeros
	Worker  int    // who computes it, below Options.Workers
}

// Options describes a queue.
type Options struct {
	Batch   int // most samples of a batch
	Waiting int // most samples that wait. One request that finds no other waiting may have more.

	// Workers compute batches at the same time; 0: 1. A batch goes to one that is free.
	Workers int

	// Run computes a batch: as many numbers for each sample, in their order. A goroutine for each
	// worker calls it. Its error is that of all requests in the batch. Where it panics, each request of
	// the batch is computed once more, without the others.
	Run func(Batch) ([]float32, error)

	// Ready waits until a worker can compute. Where that is not at once, it calls others first: another worker
	// takes what waits. Nil: each can.
	Ready func(worker int, others func())

	// Gone reports whether a worker computes nothing any more, and others do. Then one of them computes the
	// batch whose Run has failed; where it fails there, too, that is the error. Nil: each goes on to the end. It
	// must leave one worker.
	Gone func(worker int) bool

	// Alone reports whether an error of Run may be about some of the samples only: then
	// each request of the batch is computed once more, without the others. Nil: never.
	Alone func(error) bool
}

// Queue is requests that wait for their batch. Its methods are safe for concurrent use.
type Queue struct {
	opt  Options
	wake chan struct{}  // has an element when requests may have come
	quit chan struct{}  // closed by Close
	work sync.WaitGroup // the workers

	mu      sync.Mutex
	waiting []*request // in the order in which they came
	back    []batch    // of workers that are gone; they come before waiting
	samples int        // of waiting and back that no worker has
	closed  bool
	stats   Stats
}

// batch is parts of requests in the rows of a Batch.
type batch struct {
	Batch
	parts []part
	again bool // a worker has failed with it, and is gone
}

// worker computes batches. Its goroutine owns it.
type worker struct {
	*Queue
	index int
	rows  []byte // of the batch under way
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
	q := &Queue{opt: o, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	q.stats.Batches = make([]int64, len(Buckets(o.Batch)))
	for i := range max(1, o.Workers) {
		w := &worker{Queue: q, index: i}
		q.work.Go(w.run)
	}
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
// the numbers of a sample that are kept, and nil keeps all. The goroutines of workers call it, one after the other. When ctx ends
// first, Do returns its cause, and samples that are in no batch yet are not computed. A panic of pick, or of Options.Run about the
// request's samples, is Do's: others get their numbers.
func (q *Queue) Do(ctx context.Context, rows []byte, row int, pick func(sample int, numbers []float32) []float32) ([]float32, error) {
	if pick == nil {
		pick = func(_ int, numbers []float32) []float32 { return numbers }
	}
	r := &request{ctx: ctx, rows: rows, row: row, pick: pick, samples: len(rows) / row, done: make(chan struct{})}
	if err := q.add(r); err != nil {
		return nil, err
	}
	q.wakeOne()
	select {
	case <-r.done:
		out, err := r.result()
		panics.Raise(err)
		return out, err
	case <-ctx.Done():
	}
	q.mu.Lock() // the batch that takes samples of r copies them under mu
	defer q.mu.Unlock()
	q.forget(r)
	return nil, context.Cause(ctx)
}

// wakeOne wakes a worker that waits, if there is one.
func (q *Queue) wakeOne() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// gone reports whether a worker computes nothing any more.
func (q *Queue) gone(worker int) bool { return q.opt.Gone != nil && q.opt.Gone(worker) }

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

// run computes batches until the queue is closed, or the worker is gone.
func (w *worker) run() {
	for {
		select {
		case <-w.wake:
		case <-w.quit:
			return
		}
		for {
			if w.opt.Ready != nil {
				w.opt.Ready(w.index, w.wakeOne)
			}
			if w.gone(w.index) {
				w.wakeOne()
				return
			}
			b, more, ok := w.take()
			if !ok {
				break
			}
			if more {
				w.wakeOne()
			}
			w.compute(b)
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
	for _, b := range q.back {
		for _, x := range b.parts {
			x.of.fail(ErrClosed)
		}
	}
	q.waiting, q.back, q.samples = nil, nil, 0
}

// take makes the next batch: one of a worker that is gone; or of the request that has waited for longest, and of others
// with samples of its size. more says that others wait. ok is false where none waits, and once the queue is closed.
func (w *worker) take() (b batch, more, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropEnded()
	switch {
	case w.closed:
		return b, false, false
	case len(w.back) > 0:
		b, w.back = w.back[0], w.back[1:]
		w.samples -= b.Real
		b.Worker = w.index
		return b, w.samples > 0, true
	case len(w.waiting) == 0:
		return b, false, false
	}
	row, n := w.waiting[0].row, 0
	w.rows = w.rows[:0]
	left := w.waiting[:0]
	for _, r := range w.waiting {
		if r.row == row && n < w.opt.Batch {
			x := part{r, r.taken, min(r.samples-r.taken, w.opt.Batch-n)}
			w.rows = append(w.rows, r.rows[r.taken*row:(r.taken+x.samples)*row]...)
			b.parts, n, r.taken = append(b.parts, x), n+x.samples, r.taken+x.samples
		}
		if r.taken < r.samples {
			left = append(left, r)
		}
	}
	clear(w.waiting[len(left):])
	w.waiting, w.samples = left, w.samples-n
	w.count(n)
	b.Batch = w.filled(n, row)
	return b, w.samples > 0, true
}

// giveBack has another worker compute a batch.
func (w *worker) giveBack(b batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		for _, x := range b.parts {
			x.of.fail(ErrClosed)
		}
		return
	}
	w.back, w.samples = append(w.back, b), w.samples+b.Real
}

// dropEnded drops the requests whose context has ended: nobody wants their answers.
func (q *Queue) dropEnded() {
	q.back = slices.DeleteFunc(q.back, func(b batch) bool {
		ended := !slices.ContainsFunc(b.parts, func(x part) bool { return x.of.ctx.Err() == nil })
		if ended {
			q.samples -= b.Real
		}
		return ended
	})
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

// filled is the batch of the n samples in w.rows, with zeros up to the next bucket.
func (w *worker) filled(n, row int) Batch {
	sizes := Buckets(w.opt.Batch)
	i, _ := slices.BinarySearch(sizes, n)
	w.rows = append(w.rows, make([]byte, (sizes[i]-n)*row)...)
	return Batch{sizes[i], w.rows, n, w.index}
}

// compute runs a batch, and gives each request its numbers.
func (w *worker) compute(b batch) {
	out, err := w.numbers(b.Batch)
	if err != nil && w.gone(w.index) && !b.again { // else it may be what makes devices fail
		b.again = true
		w.giveBack(b)
		return
	}
	if err != nil && len(b.parts) > 1 && w.alone(err) {
		w.apart(b)
		return
	}
	per, at := 0, 0
	if err == nil {
		per = len(out) / b.Samples
	}
	for _, x := range b.parts {
		if err != nil {
			w.refuse(x.of, err)
			continue
		}
		if err := x.give(out[at*per : (at+x.samples)*per]); err != nil {
			w.refuse(x.of, err)
		}
		at += x.samples
	}
}

// numbers are those of a batch. A panic is an error.
func (q *Queue) numbers(b Batch) (out []float32, err error) {
	defer panics.Keep(&err)
	return q.opt.Run(b)
}

// alone reports whether an error of a batch may be about some of its samples only.
func (q *Queue) alone(err error) bool {
	return panics.Kept(err) || q.opt.Alone != nil && q.opt.Alone(err)
}

// apart computes the parts of a batch one by one.
func (w *worker) apart(b batch) {
	row, at := len(b.Rows)/b.Samples, 0
	all := slices.Clone(b.Rows)
	for _, x := range b.parts {
		w.rows = append([]byte(nil), all[at*row:(at+x.samples)*row]...) // of its own, which another worker may get
		w.compute(batch{w.filled(x.samples, row), []part{x}, b.again})
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

// Close waits for the batches under way. Requests that wait fail with ErrClosed, as later
// ones do.
func (q *Queue) Close() {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	q.mu.Unlock()
	if first {
		close(q.quit)
	}
	q.work.Wait()
	q.refuseAll()
}
