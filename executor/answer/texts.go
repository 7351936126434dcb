package answer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/errs"
)

// texts generates texts for a service, several at once: tokens of one come between those
// of the others, and between batches.
type texts struct {
	opt  ServiceOptions
	free chan *slot // those of no text under way
	all  []*slot

	mu      sync.Mutex
	asked   int   // calls of Generate: at most Texts have a slot, and Queue wait
	running int   // those with a slot, whose generator may still be made
	tokens  int64 // that were generated
}

// slot is the place of a text among those that are generated at once: caches on the devices. The
// text that has it owns it.
type slot struct {
	number     int                           // from 1 on
	generators map[*Service]*infer.Generator // of the model and its adapters, with the same caches; made when they are first needed
}

// newTexts has no generators yet.
func newTexts(o ServiceOptions) *texts {
	x := &texts{opt: o, free: make(chan *slot, o.Texts)}
	for i := range o.Texts {
		x.all = append(x.all, &slot{1 + i, map[*Service]*infer.Generator{}})
		x.free <- x.all[i]
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
	place, err := s.texts.slot(ctx, s.done)
	if err != nil {
		return Generation{}, err
	}
	defer func() { s.texts.giveBack(place, t.res.Tokens) }()
	g, err := s.generator(ctx, place)
	if err != nil {
		return Generation{}, err
	}
	reader := &turns{service: s, generator: g}
	if err := reader.choose(ctx, o.sampling()); err != nil {
		return Generation{}, err
	}
	err = t.run(ctx, reader)
	return t.res, t.Ended(ctx, err)
}

// slot waits for one that no other text has. done is closed where the service ends.
func (x *texts) slot(ctx context.Context, done <-chan struct{}) (*slot, error) {
	if !x.enter() {
		return nil, errs.ErrBusy
	}
	select {
	case place := <-x.free:
		x.count(0, 1)
		return place, nil
	case <-ctx.Done():
		x.count(-1, 0)
		return nil, context.Cause(ctx)
	case <-done:
		x.count(-1, 0)
		return nil, errs.ErrClosed
	}
}

// count adds to the numbers of calls, and of those with a generator.
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

// generator is the service's generator of a slot, compiled if it is not there yet.
func (s *Service) generator(ctx context.Context, place *slot) (g *infer.Generator, err error) {
	if g = place.generators[s]; g != nil {
		return g, nil
	}
	err = s.inTurn(ctx, func() error {
		size := s.engine.Model.Generator()
		size.Text = place.number
		if g, err = s.engine.generator(ctx, size); err != nil {
			return err
		}
		place.generators[s] = g
		s.programs.Add(2) // of chunks, and of single tokens
		return nil
	})
	return g, err
}

// giveBack lets another text have a slot, which gave this one so many tokens.
func (x *texts) giveBack(place *slot, tokens int) {
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
	for _, place := range x.all {
		for _, g := range place.generators {
			err = errors.Join(err, g.Close())
		}
	}
	x.all = nil
	return err
}

// turns is a generator whose steps take turns with the other programs of a service.
type turns struct {
	service   *Service
	generator *infer.Generator
}

// choose begins a text.
func (r *turns) choose(ctx context.Context, s infer.Sampling) error {
	return r.service.inTurn(ctx, func() error {
		r.generator.Forget()
		return r.generator.Choose(s)
	})
}

// Append is [infer.Generator.Append] in turn.
func (r *turns) Append(ctx context.Context, tokens []int32, number int) (next int32, err error) {
	err = r.service.inTurn(ctx, func() error {
		next, err = r.generator.Append(ctx, tokens, number)
		return err
	})
	return next, err
}

// Room is [infer.Generator.Room].
func (r *turns) Room() int { return r.generator.Room() }

// Forget is [infer.Generator.Forget].
func (r *turns) Forget() { r.generator.Forget() }
