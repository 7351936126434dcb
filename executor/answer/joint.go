package answer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/panics"
)

// joint generates several texts with one generator. Texts that want their next token at the
// same time get it by one step, which reads the weights once for all. A prompt is read alone,
// between two steps. A text has the tokens that it has alone, whoever takes part.
//
// One of the texts that wait leads: it waits until those of the step before are back, and
// then takes the step for all that wait.
type joint struct {
	gen    *infer.Generator
	inTurn func(ctx context.Context, f func() error) error // calls f while no other program runs
	loaded func(programs int)                              // is told of programs that steps have compiled; nil: nobody is

	lead     chan struct{} // has one element while a text leads
	full     chan struct{} // tells the leader that texts came or left
	patience *time.Timer

	mu      sync.Mutex
	waiting []*seat
	due     int // texts of the step before that are not back

	taken []*seat // of the step under way, as turns
	turns []infer.Turn
}

// patience is the longest time that a step waits for a text of the step before, such as one
// whose reader is slow. It is waited for again once it is back.
const patience = 2 * time.Millisecond

// seat is a text's place among those of a joint. The goroutine of the text uses it.
type seat struct {
	*joint
	place int
	turn  infer.Turn
	done  chan error
	due   bool // see joint.due
}

// errAgain says that a step did not begin, since its leader's text ended.
var errAgain = errors.New("the step did not begin")

// newJoint is the texts of a generator.
func newJoint(g *infer.Generator, inTurn func(context.Context, func() error) error) *joint {
	j := &joint{gen: g, inTurn: inTurn, lead: make(chan struct{}, 1), full: make(chan struct{}, 1), patience: time.NewTimer(patience)}
	j.patience.Stop()
	return j
}

// sit begins a text at a place, whose tokens are chosen by s. The text leaves at its end.
func (j *joint) sit(place int, s infer.Sampling) *seat {
	j.gen.Forget(place)
	j.gen.Choose(place, s)
	return &seat{joint: j, place: place, done: make(chan error, 1)}
}

// Room is [infer.Generator.Room].
func (s *seat) Room() int { return s.gen.Room(s.place) }

// Forget is [infer.Generator.Forget].
func (s *seat) Forget() { s.gen.Forget(s.place) }

// Append is [infer.Generator.Append]; with one token, it takes a step together with others.
func (s *seat) Append(ctx context.Context, tokens []int32, number int) (next int32, err error) {
	if len(tokens) > 1 {
		s.leave()
		err = s.inTurn(ctx, func() error {
			next, err = s.gen.Append(ctx, s.place, tokens, number)
			return err
		})
		return next, err
	}
	s.turn = infer.Turn{Text: s.place, Token: tokens[0], Number: number}
	for err = errAgain; err == errAgain; {
		err = s.step(ctx)
	}
	panics.Raise(err)
	return s.turn.Next, err
}

// leave has no step wait for the text.
func (s *seat) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isBack()
}

// isBack counts the text as back. s.mu is held.
func (s *seat) isBack() {
	if !s.due {
		return
	}
	s.due = false
	if s.joint.due--; s.joint.due == 0 {
		select {
		case s.full <- struct{}{}:
		default:
		}
	}
}

// step waits until a step has given the text its token, and leads it if no other text does.
func (s *seat) step(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, s)
	s.isBack()
	s.mu.Unlock()
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return s.withdraw(context.Cause(ctx))
	case s.lead <- struct{}{}:
	}
	defer func() { <-s.lead }()
	select {
	case err := <-s.done: // of the leader before
		return err
	default:
	}
	s.gather()
	if err := s.inTurn(ctx, func() error { return s.take(ctx, s) }); err != nil {
		return s.withdraw(err)
	}
	return <-s.done
}

// withdraw ends the text's waiting with an error, unless a step has taken it.
func (s *seat) withdraw(err error) error {
	s.mu.Lock()
	for i, x := range s.waiting {
		if x == s {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			s.mu.Unlock()
			return err
		}
	}
	s.mu.Unlock()
	return <-s.done
}

// gather waits for the texts of the step before.
func (j *joint) gather() {
	j.patience.Reset(patience)
	defer j.patience.Stop()
	for {
		j.mu.Lock()
		due := j.due
		j.mu.Unlock()
		if due == 0 {
			return
		}
		select {
		case <-j.full:
		case <-j.patience.C:
			j.mu.Lock()
			for _, x := range j.taken {
				x.due = false
			}
			j.due = 0
			j.mu.Unlock()
			return
		}
	}
}

// take gives each text that waits its token, or its error. Where the leader's ctx ends before
// the step began, the others are to try again. Where the step panics, each text takes a step alone,
// and one whose step panics again ends with that.
func (j *joint) take(ctx context.Context, leader *seat) error {
	j.mu.Lock()
	j.taken, j.turns, j.due = append(j.taken[:0], j.waiting...), j.turns[:0], len(j.waiting)
	for _, x := range j.taken {
		x.due, j.turns = true, append(j.turns, x.turn)
	}
	clear(j.waiting)
	j.waiting = j.waiting[:0]
	j.mu.Unlock()
	before := j.gen.Programs()
	err := j.read(ctx, j.turns)
	alone := panics.Kept(err) && len(j.turns) > 1
	if alone {
		err = j.apart(ctx)
	}
	if n := j.gen.Programs() - before; n > 0 && j.loaded != nil {
		j.loaded(n)
	}
	for i, x := range j.taken {
		own := err
		if err == nil || alone {
			x.turn = j.turns[i]
			own = x.turn.Err
		}
		if x != leader && ctx.Err() != nil && errors.Is(own, context.Cause(ctx)) {
			own = errAgain
		}
		x.done <- own
	}
	return err
}

// apart takes a step for each of the turns, which has its error. err is one that is no panic.
func (j *joint) apart(ctx context.Context) (err error) {
	for i := range j.turns {
		if own := j.read(ctx, j.turns[i:i+1]); own != nil {
			j.turns[i].Err = own
			if !panics.Kept(own) {
				err = own
			}
		}
	}
	return err
}

// read takes a step. A panic is an error.
func (j *joint) read(ctx context.Context, turns []infer.Turn) (err error) {
	defer panics.Keep(&err)
	return j.gen.Step(ctx, turns)
}
