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
	service *Service
	free    chan *infer.Generator // of texts that have ended, and nil for each that is not made yet
	all     []*infer.Generator    // that are made

	mu      sync.Mutex
	asked   int   // calls of Generate: at most Texts have a generator, and Queue wait
	running int   // those with a generator, which may still be made
	tokens  int64 // that were generated
}

// newTexts has no generators yet: they are made when they are first needed.
func newTexts(s *Service) *texts {
	x := &texts{service: s, free: make(chan *infer.Generator, s.opt.Texts)}
	for range s.opt.Texts {
		x.free <- nil
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
	g, err := s.texts.generator(ctx)
	if err != nil {
		return Generation{}, err
	}
	defer func() { s.texts.giveBack(g, t.res.Tokens) }()
	reader := &turns{service: s, generator: g}
	if err := reader.choose(ctx, o.sampling()); err != nil {
		return Generation{}, err
	}
	err = t.run(ctx, reader)
	return t.res, t.Ended(ctx, err)
}

// generator waits for one that no other text has.
func (x *texts) generator(ctx context.Context) (g *infer.Generator, err error) {
	if !x.enter() {
		return nil, errs.ErrBusy
	}
	select {
	case g = <-x.free:
		x.count(0, 1)
	case <-ctx.Done():
		x.count(-1, 0)
		return nil, context.Cause(ctx)
	case <-x.service.done:
		x.count(-1, 0)
		return nil, errs.ErrClosed
	}
	if g == nil {
		if g, err = x.make(ctx); err != nil {
			x.giveBack(nil, 0)
			return nil, err
		}
	}
	return g, nil
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
	if x.asked >= x.service.opt.Texts+x.service.opt.Queue {
		return false
	}
	x.asked++
	return true
}

// make compiles a generator.
func (x *texts) make(ctx context.Context) (g *infer.Generator, err error) {
	s := x.service
	err = s.inTurn(ctx, func() error {
		size := s.engine.Model.Generator()
		size.Text = 1 + len(x.all)
		if g, err = s.engine.generator(ctx, size); err != nil {
			return err
		}
		x.all = append(x.all, g)
		s.programs.Add(2) // of chunks, and of single tokens
		return nil
	})
	return g, err
}

// giveBack lets another text have a generator, which gave this one so many tokens.
func (x *texts) giveBack(g *infer.Generator, tokens int) {
	x.mu.Lock()
	x.asked, x.running, x.tokens = x.asked-1, x.running-1, x.tokens+int64(tokens)
	x.mu.Unlock()
	x.free <- g
}

// stats is the number of texts under way, of those that wait, and of tokens.
func (x *texts) stats() (running, waiting int, tokens int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.running, x.asked - x.running, x.tokens
}

// close unloads the generators. No program runs any more.
func (x *texts) close() (err error) {
	for _, g := range x.all {
		err = errors.Join(err, g.Close())
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
