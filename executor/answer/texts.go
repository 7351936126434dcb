package answer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/berth-ml/berth/internal/errs"
)

// texts generates texts for a service, several at once, with each of its models by a joint:
// their steps come between batches.
type texts struct {
	opt  ServiceOptions
	free chan int // places of no text under way

	joints map[*Service]*joint // of the model and its adapters, made when they are first needed; used in turn
	filled map[int]bool        // contexts whose caches have contents; used in turn

	mu      sync.Mutex
	asked   int   // calls of Generate: at most Texts have a place, and Queue wait
	running int   // those with a place, whose generator may still be made
	tokens  int64 // that were generated
}

// newTexts has no generators yet.
func newTexts(o ServiceOptions) *texts {
	x := &texts{opt: o, free: make(chan int, o.Texts), joints: map[*Service]*joint{}, filled: map[int]bool{}}
	for i := range o.Texts {
		x.free <- i
	}
	return x
}

// Generate continues a text. Where ServiceOptions.Texts are under way, it waits; where too
// many wait, it fails with errs.ErrBusy. The texts of a service have the model's own context.
func (s *Service) Generate(ctx context.Context, o GenerateOptions, emit func(Piece) error) (Generation, error) {
	t, err := s.engine.Model.NewText(ctx, o, emit)
	if err != nil {
		return Generation{}, err
	}
	if asked, has := t.size.Context, s.engine.Model.Generator().Context; asked != has {
		return Generation{}, fmt.Errorf("%w: a context of %d tokens: this service generates with a context of %d and cannot change it; leave the context out", errs.ErrOptions, asked, has)
	}
	place, err := s.texts.place(ctx, s.done)
	if err != nil {
		return Generation{}, err
	}
	defer func() { s.texts.giveBack(place, t.res.Tokens) }()
	j, err := s.joint(ctx)
	if err != nil {
		return Generation{}, err
	}
	seat := j.sit(place, o.sampling())
	defer seat.leave()
	err = t.run(ctx, seat)
	return t.res, t.Ended(ctx, err)
}

// place waits for one that no other text has. done is closed where the service ends.
func (x *texts) place(ctx context.Context, done <-chan struct{}) (int, error) {
	if !x.enter() {
		return 0, errs.ErrBusy
	}
	select {
	case place := <-x.free:
		x.count(0, 1)
		return place, nil
	case <-ctx.Done():
		x.count(-1, 0)
		return 0, context.Cause(ctx)
	case <-done:
		x.count(-1, 0)
		return 0, errs.ErrClosed
	}
}

// count adds to the numbers of calls, and of those with a place.
func (x *texts) count(asked, running int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked, x.running = x.asked+asked, x.running+running
}

// enter counts a call; ok is false where too many wait.
func (x *texts) enter() (ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.asked >= x.opt.Texts+x.opt.Queue {
		return false
	}
	x.asked++
	return true
}

// joint is the texts of the service's model. Its generator is compiled if it is not there yet.
func (s *Service) joint(ctx context.Context) (j *joint, err error) {
	x := s.texts
	err = s.inTurn(ctx, func() error {
		if j = x.joints[s]; j != nil {
			return nil
		}
		size := s.engine.Model.Generator()
		size.Texts = x.opt.Texts
		g, err := s.engine.generator(ctx, size, !x.filled[size.Context])
		if err != nil {
			return err
		}
		x.filled[size.Context] = true
		j = newJoint(g, s.inTurn)
		j.loaded = func(programs int) { s.programs.Add(int32(programs)) }
		j.loaded(g.Programs())
		x.joints[s] = j
		return nil
	})
	return j, err
}

// giveBack lets another text have a place, at which this one has so many tokens.
func (x *texts) giveBack(place, tokens int) {
	x.mu.Lock()
	x.asked, x.running, x.tokens = x.asked-1, x.running-1, x.tokens+int64(tokens)
	x.mu.Unlock()
	x.free <- place
}

// stats is the number of texts under way, of those that wait, and of tokens.
func (x *texts) stats() (running, waiting int, tokens int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.running, x.asked - x.running, x.tokens
}

// close unloads the generators. No program runs any more.
func (x *texts) close() (err error) {
	for _, j := range x.joints {
		err = errors.Join(err, j.gen.Close())
	}
	x.joints = nil
	return err
}
