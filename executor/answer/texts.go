package answer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/errs"
)

// texts are the places of texts that a service generates: several at once on each group, whose
// steps come between its batches.
type texts struct {
	opt ServiceOptions

	mu      sync.Mutex
	asked   int          // calls of Generate that have no place, or one
	on      []*places    // of the groups that are not lost, and of those that were
	waiting []chan place // of calls without a place, in the order in which they came; each has room for one
}

// places are those of a group.
type places struct {
	group   *group
	free    []int // those of no text under way; nil once the group is lost
	running int   // texts with a place
	tokens  int64 // that were generated
}

// place is one of a group's places, of a text under way.
type place struct {
	of    *places
	index int
}

// newTexts has all places free.
func newTexts(o ServiceOptions, groups []*group) *texts {
	x := &texts{opt: o}
	for _, g := range groups {
		p := &places{group: g}
		for i := range o.Texts {
			p.free = append(p.free, i)
		}
		x.on = append(x.on, p)
	}
	return x
}

// Generate continues a text, on the group that generates the fewest. Where all have ServiceOptions.Texts under way, it
// waits; where too many wait, it fails with errs.ErrBusy. The texts of a service have the model's own context.
func (s *Service) Generate(ctx context.Context, o GenerateOptions, emit func(Piece) error) (Generation, error) {
	t, err := s.model().NewText(ctx, o, emit)
	if err != nil {
		return Generation{}, err
	}
	if asked, has := t.size.Context, s.model().Generator().Context; asked != has {
		return Generation{}, fmt.Errorf("%w: a context of %d tokens: this service generates with a context of %d and cannot change it; leave the context out", errs.ErrOptions, asked, has)
	}
	if !s.texts.enter() {
		return Generation{}, errs.ErrBusy
	}
	defer s.texts.leave()
	for {
		p, err := s.texts.place(ctx, s.done)
		if err != nil {
			return Generation{}, err
		}
		began, err := s.generate(ctx, t, p)
		_, lost := executor.LostDevice(err)
		if lost { // the text may hear of it before the step has ended
			_ = p.of.group.settled(ctx)
		}
		if lost && ctx.Err() == nil && p.of.group.left() {
			if t.res.Tokens == 0 { // nobody has seen any of it
				continue
			}
			err = fmt.Errorf("%s was lost after %d tokens of the text: ask for the text again: %w", p.of.group.name(), t.res.Tokens, err)
		}
		if !began {
			return Generation{}, err
		}
		return t.res, t.Ended(ctx, err)
	}
}

// generate continues a text at its place, which it gives back. It has not begun where no generator is there.
func (s *Service) generate(ctx context.Context, t *Text, p place) (began bool, err error) {
	defer func() { s.texts.giveBack(p, t.res.Tokens) }() // also where the text's emit panics
	j, err := p.of.group.joint(ctx, s.index)
	if err != nil {
		return false, err
	}
	seat := j.sit(p.index, t.opt.sampling())
	defer seat.leave()
	return true, t.run(ctx, seat)
}

// enter counts a call; ok is false where too many wait.
func (x *texts) enter() (ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	most := x.opt.Queue
	for _, p := range x.on {
		if !p.group.left() {
			most += x.opt.Texts
		}
	}
	if x.asked >= most {
		return false
	}
	x.asked++
	return true
}

// leave counts a call that ends.
func (x *texts) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked--
}

// place waits for one that no other text has. done is closed where the service ends.
func (x *texts) place(ctx context.Context, done <-chan struct{}) (place, error) {
	mine := make(chan place, 1)
	x.mu.Lock()
	x.waiting = append(x.waiting, mine)
	x.seat()
	x.mu.Unlock()
	err := errs.ErrClosed
	select {
	case p := <-mine:
		return p, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-done:
	}
	x.mu.Lock()
	i := slices.Index(x.waiting, mine)
	if i >= 0 {
		x.waiting = slices.Delete(x.waiting, i, i+1)
	}
	x.mu.Unlock()
	if i < 0 { // it got one meanwhile
		x.giveBack(<-mine, 0)
	}
	return place{}, err
}

// seat gives places to the calls that wait: each one of the group with the fewest texts. x.mu is held.
func (x *texts) seat() {
	for len(x.waiting) > 0 {
		var least *places
		for _, p := range x.on {
			if len(p.free) > 0 && (least == nil || p.running < least.running) {
				least = p
			}
		}
		if least == nil {
			return
		}
		last := len(least.free) - 1
		x.waiting[0] <- place{least, least.free[last]}
		x.waiting, least.free, least.running = x.waiting[1:], least.free[:last], least.running+1
	}
}

// giveBack lets another text have a place, at which this one has so many tokens.
func (x *texts) giveBack(p place, tokens int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p.of.running--
	p.of.tokens += int64(tokens)
	if !p.of.group.left() {
		p.of.free = append(p.of.free, p.index)
	}
	x.seat()
}

// lose has no more texts go to a group.
func (x *texts) lose(g *group) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.on {
		if p.group == g {
			p.free = nil
		}
	}
}

// of is the number of texts that a group generates, and of its tokens.
func (x *texts) of(g *group) (running int, tokens int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.on {
		if p.group == g {
			return p.running, p.tokens
		}
	}
	return 0, 0
}

// waits is the number of texts that wait.
func (x *texts) waits() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.waiting)
}
