package saver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/residency"
)

// NewOptions are how a run's checkpoints are saved.
type NewOptions struct {
	DB      *checkpoint.DB // nil on ranks that only lend
	Ranks   *Ranks         // nil: this process has all variables
	Bound   Bound
	Keep    checkpoint.Keep            // the checkpoints that are kept
	Saved   func(Saved)                // is told of each checkpoint, by the goroutine that trains
	Damaged func([]checkpoint.Skipped) // is told of damage found in other checkpoints
	Note    func(string)               // is told what a user should know
}

// Saved is a checkpoint that was written.
type Saved struct {
	Step  int
	ID    uint64
	Bytes int64 // of all tensors
	Time  time.Duration
}

// Saver takes a run's checkpoints, one at a time. Its maker owns it, and the goroutine that trains
// uses it.
type Saver struct {
	opt    NewOptions
	state  *state
	done   chan result   // of the save under way; nil: none is
	ends   chan struct{} // closed once done has its result
	stats  Stats
	untidy bool // tidying failed once: not worth another attempt at every save
}

// Stats are the saves so far.
type Stats struct {
	Count             int
	Stall, Copy, Time time.Duration // sums: training stood at boundaries; until the state was copied; until it was on the disk, pruned and tidied
	Longest           time.Duration // of Time
}

// result is how a save ended. The goroutine that writes hands it to the one that trains.
type result struct {
	saved   Saved
	copy    time.Duration
	lent    bool // another rank writes
	tidied  bool
	untidy  error // tidying failed, once it was saved
	damaged []checkpoint.Skipped
	err     error
}

// New makes a saver of the variables of a graph, whose tensors are known by
// name. The caller closes it before the manager.
func New(m *residency.Tenant, g *graph.Graph, tensor func(name string) *residency.Tensor, o NewOptions) *Saver {
	return &Saver{opt: o, state: newState(m, g, tensor, o.Bound)}
}

// Reserve gets the memory that a whole state is staged in: the next save would
// be slow otherwise. It ends early, without an error, once ctx is done.
func (s *Saver) Reserve(ctx context.Context) error {
	if s.opt.Bound > 0 {
		return nil
	}
	return s.state.staging.Reserve(ctx)
}

// Save takes a checkpoint of the variables as they are; nothing may be queued.
// It waits for the save before. If there is room to stage the whole state, it returns
// before that is on the disk. Deleting and compacting old checkpoints ends when leisure does.
func (s *Saver) Save(ctx, leisure context.Context, m checkpoint.Manifest) error {
	asked := time.Now()
	if err := s.Await(); err != nil {
		return err
	}
	start := time.Now()
	src := &source{state: s.state, ctx: ctx, late: -1}
	src.divide(s.opt.Ranks)
	broken := src.queue()
	done, ends, tidy := make(chan result, 1), make(chan struct{}), !s.untidy
	s.done, s.ends = done, ends
	go func() {
		done <- s.write(ctx, leisure, m, src, broken, start, tidy)
		close(ends)
	}()
	var err error
	if s.opt.Bound > 0 || broken != nil {
		err = s.Await()
	}
	s.stats.Stall += time.Since(asked)
	return err
}

func failed(step int, err error) error { return fmt.Errorf("checkpoint at step %d: %w", step, err) }

// write saves the staged state, or tells the other ranks that it is broken: they would wait for this one. It runs while
// training goes on.
func (s *Saver) write(ctx, leisure context.Context, m checkpoint.Manifest, src *source, broken error, start time.Time, tidy bool) result {
	if broken == nil {
		broken = src.wait()
	}
	r := result{saved: Saved{Step: m.Step}, err: broken, copy: time.Since(start)}
	if s.opt.DB == nil {
		r.lent, r.err = true, s.lend(ctx, src, broken)
	} else {
		if broken == nil {
			s.store(ctx, m, src, &r)
		}
		if err := src.end(); r.err == nil { // before old checkpoints are tidied up: the others have memory staged until then
			r.err = err
		}
		if r.err == nil {
			s.prune(leisure, tidy, &r)
		}
	}
	r.saved.Time = time.Since(start)
	return r
}

// store saves a state.
func (s *Saver) store(ctx context.Context, m checkpoint.Manifest, src checkpoint.Source, r *result) {
	for _, x := range src.Tensors() {
		r.saved.Bytes += x.Meta.Bytes()
	}
	if r.saved.ID, r.err = s.opt.DB.Save(ctx, m, src); r.err == nil {
		r.err = s.opt.DB.InPlace() // or the run would go on for nothing
	}
}

// prune deletes the checkpoints that are not to be kept. A failure costs room, and no checkpoint.
func (s *Saver) prune(leisure context.Context, tidy bool, r *result) {
	_, r.damaged, r.untidy = s.opt.DB.Prune(leisure, s.opt.Keep)
	if r.untidy == nil && tidy {
		r.tidied, r.untidy = s.opt.DB.Tidy(leisure)
	}
	if r.untidy != nil && errors.Is(r.untidy, leisure.Err()) { // the run is to end now: the next one tidies up
		r.tidied, r.untidy = false, nil
	}
}

// Poll reports a save that has ended meanwhile; it does not wait.
func (s *Saver) Poll() error {
	select {
	case r := <-s.done: // of a nil channel: never
		return s.ended(r)
	default:
		return nil
	}
}

// Await waits for the save under way.
func (s *Saver) Await() error {
	if s.done == nil {
		return nil
	}
	return s.ended(<-s.done)
}

// Settle waits for the save under way, and leaves its result to Poll or Await: nobody is told yet.
func (s *Saver) Settle() {
	if s.done != nil {
		r := <-s.done
		s.done <- r // there is room for it
	}
}

// Free gives the memory back that a whole state is staged in, until Reserve or the next save. No save is under
// way, but for a result that nobody has been told. A closed Saver has none.
func (s *Saver) Free() {
	if s.state != nil {
		s.state.staging.Close()
	}
}

// Ends is closed once the save under way has ended: Poll then tells how. It is nil while none is.
func (s *Saver) Ends() <-chan struct{} { return s.ends }

// Busy reports whether a save is under way.
func (s *Saver) Busy() bool { return s.done != nil }

// ended takes the result of a save in.
func (s *Saver) ended(r result) error {
	s.done, s.ends = nil, nil
	if r.err != nil {
		return failed(r.saved.Step, r.err)
	}
	s.stats.Count++
	s.stats.Longest = max(s.stats.Longest, r.saved.Time)
	s.stats.Copy += r.copy
	s.stats.Time += r.saved.Time
	if r.lent {
		s.opt.Saved(r.saved)
		return nil
	}
	s.opt.Damaged(r.damaged)
	switch {
	case r.untidy != nil && !s.untidy:
		s.untidy = true
		s.opt.Note(fmt.Sprintf("checkpoint at step %d is saved, though tidying up after it failed, and its file stays larger than it need be: %v", r.saved.Step, r.untidy))
	case r.tidied && r.untidy == nil:
		s.opt.Note(fmt.Sprintf("compacted %s", s.opt.DB.Path()))
	}
	s.opt.Saved(r.saved)
	return nil
}

// Stats measures the saves so far.
func (s *Saver) Stats() Stats { return s.stats }

// Close waits for the save under way and frees the staging memory. A second
// call does nothing.
func (s *Saver) Close() error {
	if state := s.state; state != nil {
		defer state.staging.Close()
	}
	s.state = nil
	return s.Await()
}

// Rescue is Save after a step has failed: of the variables as they were before
// that step. They are read one after the other, and the disk is waited for. If one
// cannot be read, nothing is written. No save is under way.
func (s *Saver) Rescue(ctx context.Context, m checkpoint.Manifest) error {
	src := &rescued{state: s.state, ctx: ctx}
	for k := range src.parts {
		if err := src.read(k); err != nil {
			return failed(m.Step, err)
		}
	}
	r, start := result{saved: Saved{Step: m.Step}}, time.Now()
	if s.store(ctx, m, src, &r); r.err == nil {
		s.prune(ctx, false, &r)
	}
	r.saved.Time = time.Since(start)
	return s.ended(r)
}
