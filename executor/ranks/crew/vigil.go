package crew

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-ml/berth/executor/ranks"
)

// Doing is what a rank does.
type Doing struct {
	Step  int    // that is under way; 0: none is
	What  string // "it reads its data"
	Moves uint64 // is another number once the rank has got on
	Must  bool   // it must get on: it neither reads data nor saves
	Rank  int    // the rank that it waits for; its own: it waits for none; -1: the crew knows
	For   string // what it waits for: "receive of grad/w3"
}

// beat is a sign of life.
type beat struct {
	Over  bool      // the rank has come to its end
	Last  *lastWord // it ends all ranks
	Doing Doing
	Still time.Duration // for which it has not got on
}

// lastWord is why all ranks end.
type lastWord struct {
	Text string
	Code int // the exit code
}

// vigil has ranks hear of each other: rank 0 of each other one, and they of it. A process that hangs or was stopped sends
// no sign of life, whatever the others wait for.
type vigil struct {
	crew   *Crew
	cancel context.CancelFunc
	over   chan struct{} // closed by end
	ending chan struct{} // closed once last is set
	heard  chan struct{} // closed once rank 0 ends all
	all    sync.WaitGroup
	look   sync.WaitGroup

	saying sync.Once
	last   lastWord
	said   sync.WaitGroup // the goroutines that have last to send

	mu     sync.Mutex
	of     []life // by rank
	looked time.Time
	told   string // the rank that all wait for, as it was told; "": they do not
	gone   []time.Time
}

// life is what a rank knows of another, or of itself.
type life struct {
	beat
	at    time.Time // of the newest beat
	since time.Time // of itself: when it has got on
}

// pace is the time between signs of life.
func (c *Crew) pace() time.Duration { return min(time.Second, c.timeout()/4) }

// watch begins the vigil.
func (c *Crew) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	now := time.Now()
	v := &vigil{
		crew: c, cancel: cancel, over: make(chan struct{}), ending: make(chan struct{}), heard: make(chan struct{}),
		of: make([]life, c.Size()), looked: now, gone: make([]time.Time, c.Size()),
	}
	for i := range v.of {
		v.of[i] = life{at: now, since: now, beat: beat{Doing: Doing{Rank: -1}}}
	}
	c.vigil = v
	for i := range v.of {
		if i != c.Rank() && (c.Rank() == 0 || i == 0) {
			v.said.Add(1)
			v.all.Go(func() { v.send(ctx, i) })
			v.all.Go(func() { v.hear(ctx, i) })
		}
	}
	v.look.Go(func() { v.run(ctx) })
}

// run looks at all ranks again and again.
func (v *vigil) run(ctx context.Context) {
	for {
		select {
		case <-time.After(v.crew.pace()):
			v.own()
			if err := v.judge(time.Now()); err != nil {
				v.crew.lose(err, ExitLost)
			}
		case <-ctx.Done():
			return
		}
	}
}

// own notes what this rank does.
func (v *vigil) own() {
	d := v.crew.Doing()
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	me := &v.of[v.crew.Rank()]
	if d.Moves != me.Doing.Moves {
		me.since = now
	}
	me.Doing, me.Still, me.at = d, now.Sub(me.since), now
}

// send sends signs of life to a rank, and in the end that it was the last.
func (v *vigil) send(ctx context.Context, to int) {
	said := sync.OnceFunc(v.said.Done)
	defer said()
	for {
		var b beat
		select {
		case <-time.After(v.crew.pace()):
			v.mu.Lock()
			b = v.of[v.crew.Rank()].beat
			v.mu.Unlock()
		case <-v.ending:
			b.Last = &v.last
		case <-v.over:
			b.Over = true
		case <-ctx.Done():
			return
		}
		text, err := json.Marshal(b)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		for _, e := range v.crew.send(to, ranks.TagBeat, text) {
			if e.Wait(ctx) != nil { // the transport has failed
				return
			}
		}
		if b.Over || b.Last != nil {
			return
		}
	}
}

// hear takes in the signs of life of a rank.
func (v *vigil) hear(ctx context.Context, from int) {
	for {
		var b beat
		text, err := v.crew.message(ctx, from, ranks.TagBeat)
		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		if err != nil {
			return
		}
		v.mu.Lock()
		v.of[from].beat, v.of[from].at = b, time.Now()
		v.mu.Unlock()
		switch {
		case b.Last != nil && from == 0:
			v.endSoon(b.Last.Code)
		case b.Last != nil:
			v.crew.lose(errors.New(v.crew.Name(from)+": "+b.Last.Text), b.Last.Code)
			return
		case b.Over:
			return
		}
	}
}

// mostEnding is how long a rank waits to be ended by another that has said so.
const mostEnding = 3 * time.Second

// endSoon ends this rank, unless the one that ends all does so.
func (v *vigil) endSoon(code int) {
	close(v.heard)
	time.AfterFunc(mostEnding, func() { v.crew.Abort(code) })
}

// awaitEnd waits for the end that rank 0 has said to come. It reports whether rank 0 has.
func (v *vigil) awaitEnd() bool {
	select {
	case <-v.heard:
	case <-time.After(mostAnswer + time.Duration(v.crew.Rank())*mostSaying): // one after the other, if rank 0 is silent
		return false
	}
	ended := make(chan struct{})
	go func() {
		v.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(mostEnding):
	}
	return true
}

// mostAnswer is how long rank 0 may take to say that all end.
const mostAnswer = time.Second

// say tells others why all end, and waits a little until they have it.
func (v *vigil) say(w lastWord) {
	v.saying.Do(func() {
		v.last = w
		close(v.ending)
	})
	sent := make(chan struct{})
	go func() {
		v.said.Wait()
		close(sent)
	}()
	select {
	case <-sent:
	case <-time.After(mostSaying):
	}
}

// mostSaying is how long a rank waits until others have its last word.
const mostSaying = 200 * time.Millisecond

// judge finds the ranks that are silent or gone, and on rank 0 whom all wait for. Its error ends all.
func (v *vigil) judge(now time.Time) error {
	waiting, err := v.judged(now)
	if waiting != "" && v.crew.opt.Waiting != nil {
		v.crew.opt.Waiting(waiting)
	}
	return err
}

func (v *vigil) judged(now time.Time) (waiting string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.crew
	if now.Sub(v.looked) > max(c.timeout()/2, 4*c.pace()) { // this process stood still, and heard nobody
		for i := range v.of {
			v.of[i].at = now
		}
	}
	v.looked = now
	for i := range v.of {
		switch x := &v.of[i]; {
		case i == c.Rank() || x.Over:
		case v.isGone(i, now):
			return "", lostf("%s has ended and told the others nothing: it was killed, or says above why", c.Name(i))
		case c.Rank() != 0 && i != 0:
		case now.Sub(x.at) >= c.timeout():
			return "", c.silent(i, now.Sub(x.at))
		}
	}
	if c.Rank() > 0 {
		return "", nil
	}
	return v.waiting(now)
}

// isGone reports whether the process of a rank on this machine has been gone for a while.
func (v *vigil) isGone(rank int, now time.Time) bool {
	list := v.crew.Members()
	if list == nil {
		return false
	}
	me, m := list[v.crew.Rank()], list[rank]
	if m.Process == 0 || m.Host != me.Host || m.Space != me.Space || !gone(m.Process) {
		return false
	}
	if v.gone[rank].IsZero() {
		v.gone[rank] = now
	}
	return now.Sub(v.gone[rank]) >= time.Second // it may have come to its end, and we hear of that
}

// waiting finds out whether all wait, and for whom. err says that they have waited for too long.
func (v *vigil) waiting(now time.Time) (text string, err error) {
	c := v.crew
	still := c.timeout()
	for i := range v.of {
		x := &v.of[i]
		if x.Over {
			return "", nil
		}
		still = min(still, x.Still+now.Sub(x.at))
	}
	if still < min(c.opt.soon, c.timeout()) {
		v.told = ""
		return "", nil
	}
	rank, task := v.culprit(now)
	x := &v.of[rank]
	does := x.Doing.What
	if silent := now.Sub(x.at); silent > missed*c.pace() {
		does = fmt.Sprintf("nothing has come from it for %v", silent.Round(time.Second))
	}
	text = c.Name(rank)
	if step := cmp.Or(x.Doing.Step, v.of[0].Doing.Step); step > 0 {
		text += fmt.Sprintf(" at step %d", step)
	}
	if task != "" {
		text += ", " + task
	}
	switch {
	case still >= c.timeout() && x.Doing.Must:
		return "", lostf("no rank has got on for %v, and all wait for %s: %s", still, text, does)
	case v.told == text:
		return "", nil
	}
	v.told = text
	return fmt.Sprintf("waiting for %s: %s", text, does), nil
}

// missed is the number of signs of life after whose absence a rank is called silent.
const missed = 3

// culprit is the rank that others wait for, and that waits for none, and what is waited for in the end.
func (v *vigil) culprit(now time.Time) (rank int, task string) {
	for range v.of {
		d := v.of[rank].Doing
		if now.Sub(v.of[rank].at) > missed*v.crew.pace() || d.Rank < 0 || d.Rank == rank {
			return rank, task
		}
		rank, task = d.Rank, d.For
	}
	return rank, task
}

// end ends the vigil, once all ranks have come to their ends.
func (v *vigil) end() {
	close(v.over)
	v.all.Wait()
	v.cancel()
	v.look.Wait()
}
