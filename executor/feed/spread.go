package feed

import (
	"context"
	"errors"
	"io"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
)

// Lane is a program that is fed on a device. All programs of a Spread compute the
// same, each on devices of its own.
type Lane struct {
	Device  device.Device
	Program *executor.Program
}

// Results takes the results of steps.
type Results struct {
	// Collect moves the results of a lane's step, which has ended, to a place: a
	// number from 0 to Places-1. Steps may end in another order than their samples
	// have.
	Collect func(lane, place int, b datasets.Batch) error
	// Done uses the results in a place, in the order of the samples. Afterwards the
	// place is free.
	Done func(place int, b datasets.Batch) error
}

// Places is the number of places for results: the slowest of so many lanes lets each
// of the others go ahead by about a batch.
func Places(lanes int) int { return 2 * lanes }

// Spread runs the samples of a part from sample from on, batch by batch, each on the
// lane that has been free for longest: so each lane has a batch again after at most
// Places and one of each other lane. Reading runs ahead of the steps. A runtime that is suspended stands
// still once the steps that are queued have ended. When it returns,
// nothing is queued any more, however it ends.
func Spread(ctx context.Context, lanes []Lane, part *datasets.Part, from int, r Results) (err error) {
	first := lanes[0]
	s := &spread{
		lanes: lanes, results: r, over: make(chan int, len(lanes)),
		running: make([]step, len(lanes)), places: make([]place, Places(len(lanes))),
	}
	s.source, err = newSource(first.Device, first.Program, part, slots(len(lanes)),
		datasets.LoaderOptions{Batch: first.Program.Inputs()[0].Meta.Shape[0], Start: datasets.Cursor{Index: from}, Epochs: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	defer s.watch()()
	defer s.drain()
	return s.run(ctx)
}

// spread is a Spread under way. Batches are numbered in the order of their samples;
// batch i has place i modulo the number of places.
type spread struct {
	*source
	lanes   []Lane
	results Results
	over    chan int              // lanes whose step has ended
	ends    []chan []device.Event // by lane: of the step that it runs
	running []step                // by lane; valid unless the lane is free
	free    []int                 // lanes without a step, in the order in which they became free
	places  []place
	next    int  // the batch to queue next
	first   int  // the first batch that is not done
	read    bool // every batch was
}

// step is a batch on a lane.
type step struct {
	ticket executor.Ticket
	number int
}

// place has the results of a batch.
type place struct {
	batch     datasets.Batch
	collected bool
}

// watch starts a goroutine for each lane, which tells when a step has ended. They end
// with a call of stop, once no step runs.
func (s *spread) watch() (stop func()) {
	for k := range s.lanes {
		ends := make(chan []device.Event)
		s.ends, s.free = append(s.ends, ends), append(s.free, k)
		go func() {
			for done := range ends {
				for _, ev := range done {
					_ = ev.Wait(context.Background()) // Program.Wait gives the failure
				}
				s.over <- k
			}
		}()
	}
	return func() {
		for _, ends := range s.ends {
			close(ends)
		}
	}
}

// run keeps the lanes busy, until every batch is done. Before results are used, free
// lanes get work.
func (s *spread) run(ctx context.Context) error {
	// A queued step is waited for even if ctx ends meanwhile: its batch must stay in
	// memory until then.
	work := context.WithoutCancel(ctx)
	for {
		if err := s.fill(ctx, work); err != nil {
			return err
		}
		select {
		case k := <-s.over:
			if err := s.collect(k); err != nil {
				return err
			}
			continue
		default:
		}
		p := &s.places[s.first%len(s.places)]
		switch {
		case p.collected:
			p.collected = false
			if err := s.results.Done(s.first%len(s.places), p.batch); err != nil {
				return err
			}
			s.first++
		case s.first < s.next:
			if err := s.collect(<-s.over); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// fill gives each free lane a batch, while there are places for results and nobody suspends the work. ctx
// ends the reading, work the steps.
func (s *spread) fill(ctx, work context.Context) error {
	for len(s.free) > 0 && s.next-s.first < len(s.places) && !s.read {
		if rt := s.lanes[0].Program.Runtime(); rt.MustRest() {
			if len(s.free) < len(s.lanes) {
				return nil
			}
			if err := rt.Rest(ctx); err != nil {
				return err
			}
		}
		b, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			s.read = true
			return nil
		}
		if err != nil {
			return err
		}
		k := s.free[0]
		prog := s.lanes[k].Program
		ticket, err := prog.Step(work, s.fed(b))
		if err != nil {
			return err
		}
		s.ends[k] <- prog.Ends(ticket)
		s.free = append(s.free[:0], s.free[1:]...)
		s.running[k] = step{ticket, s.next}
		s.places[s.next%len(s.places)].batch = b
		s.next++
	}
	return nil
}

// collect moves the results of a lane's step, which has ended, to their place.
func (s *spread) collect(k int) error {
	x := s.running[k]
	s.free = append(s.free, k)
	if err := s.lanes[k].Program.Wait(context.Background(), x.ticket); err != nil {
		return err
	}
	at := x.number % len(s.places)
	p := &s.places[at]
	if err := s.results.Collect(k, at, p.batch); err != nil {
		return err
	}
	p.collected = true
	s.loader.Return(p.batch.Slot)
	return nil
}

// drain waits for the steps that are queued when a Spread fails: its error is told
// already.
func (s *spread) drain() {
	for len(s.free) < len(s.lanes) {
		k := <-s.over
		s.free = append(s.free, k)
		_ = s.lanes[k].Program.Wait(context.Background(), s.running[k].ticket)
	}
}
