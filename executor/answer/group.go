package answer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/batching"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/residency/ledger"
)

// group is a group of devices of a service.
type group struct {
	Group
	*common
	engines []*Engine     // of the model and of its adapters
	turn    chan struct{} // has one element while no program runs

	joints map[int]*joint // by index of their engines, made when they are first needed; used in turn
	filled map[int]bool   // contexts whose caches have contents; used in turn

	programs         atomic.Int32          // that were compiled
	batches, samples atomic.Int64          // that were computed
	gone             atomic.Pointer[error] // the loss after which other groups go on without this one
}

// newGroup has no programs yet.
func newGroup(x Group, c *common) *group {
	return &group{Group: x, common: c, turn: make(chan struct{}, 1), joints: map[int]*joint{}, filled: map[int]bool{}}
}

// load compiles a program of each model, and copies its weights in.
func (g *group) load(ctx context.Context) error {
	err := g.add(ctx, g.Model, g.Load)
	for _, a := range g.Adapters {
		if err == nil {
			err = g.add(ctx, a.Model, a.Load)
		}
	}
	return err
}

// failed is an error of loading. If it is the loss of a device, that is told: another load does without it.
func (g *group) failed(err error) error {
	if id, lost := executor.LostDevice(err); lost {
		g.Lost(id, err)
	}
	return executor.Plain(err)
}

// add adds a model, with a program that has its weights.
func (g *group) add(ctx context.Context, m Model, load func(context.Context, Loader) error) error {
	if m.Info.Chat != nil { // each request of messages renders it
		info := *m.Info
		info.Chat = info.Chat.Parsed()
		m.Info = &info
	}
	e := NewEngine(g.Runtime, m, EngineOptions{Load: load, Raw: true, Keep: max(8, len(batching.Buckets(g.opt.Batch)))})
	g.engines = append(g.engines, e)
	_, err := e.predictor(ctx, question{samples: 1})
	return err
}

// compile compiles the programs of all models for each size of a batch.
func (g *group) compile(ctx context.Context) error {
	for _, e := range g.engines {
		for _, n := range batching.Buckets(g.opt.Batch) {
			if _, err := e.predictor(ctx, question{samples: n}); err != nil {
				return err
			}
			g.programs.Add(1)
		}
	}
	return nil
}

// closeEngines unloads the programs for samples in memory.
func (g *group) closeEngines() (err error) {
	for _, e := range g.engines {
		err = errors.Join(err, e.Close())
	}
	return err
}

// closeTexts unloads the generators. No program runs any more.
func (g *group) closeTexts() (err error) {
	for _, j := range g.joints {
		err = errors.Join(err, j.gen.Close())
	}
	g.joints = nil
	return err
}

// closed is an error of closing without the loss of the group, which was told.
func (g *group) closed(err error) error {
	if g.left() {
		return executor.Unrelated(err)
	}
	return err
}

// name lists the devices.
func (g *group) name() string {
	var ids []string
	for _, id := range g.Devices {
		ids = append(ids, string(id))
	}
	return strings.Join(ids, ", ")
}

// inTurn calls f while no other program runs on the group. It fails with the cause of ctx,
// errs.ErrClosed, or the loss of the group where f is not called.
func (g *group) inTurn(ctx context.Context, f func() error) error {
	select {
	case <-g.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.done:
		return errs.ErrClosed
	}
	defer func() { g.turn <- struct{}{} }()
	if e := g.gone.Load(); e != nil {
		return *e
	}
	err := executor.Plain(f())
	g.note()
	if id, lost := executor.LostDevice(err); lost {
		g.Lost(id, err)
		g.lose(err)
	}
	if failed := g.Runtime.Resume(); failed != nil {
		g.lose(failed)
	}
	return err
}

// settled waits until what runs on the group has ended. If that was the loss of the group, others know it then.
func (g *group) settled(ctx context.Context) error {
	return g.inTurn(ctx, func() error { return nil })
}

// lose has the other groups go on without this one, after a loss of it. Without others, it is the loss of the service.
func (g *group) lose(err error) {
	err = executor.Plain(err)
	g.losing.Lock()
	defer g.losing.Unlock()
	if g.left() || g.lost.Load() != nil {
		return
	}
	var others []string
	for _, x := range g.groups {
		if x != g && !x.left() {
			others = append(others, x.name())
		}
	}
	if others == nil {
		g.lost.Store(&err)
		return
	}
	g.gone.Store(&err)
	g.texts.lose(g)
	g.warnings.add(fmt.Sprintf("%s; going on without %s, on %s", executor.Happened(err), g.name(), strings.Join(others, ", ")))
}

// left reports whether other groups go on without this one.
func (g *group) left() bool { return g.gone.Load() != nil }

// WentOnWithout reports whether a group, by index, was lost while others answer.
func (s *Service) WentOnWithout(i int) bool { return s.groups[i].left() }

// note takes the warnings of the runtime. It is called in turn.
func (g *group) note() {
	if text := executor.RefusedText(g.Runtime.Refused()); text != "" {
		g.warnings.add(text)
	}
	for _, failure := range g.Runtime.Retried() {
		g.warnings.add(executor.TryingAgain(failure))
	}
}

// stats is what the group has done, but for texts.
func (g *group) stats() GroupStats {
	st := GroupStats{Devices: g.Devices, Batches: g.batches.Load(), Samples: g.samples.Load()}
	st.WeightBytes = g.Runtime.Residency.Ledger().OfUsage(ledger.CopyIn, device.Weight).Bytes
	if e := g.gone.Load(); e != nil {
		st.Lost = *e
	} else if e := g.lost.Load(); e != nil {
		st.Lost = *e
	}
	return st
}

// joint is the texts of a model on the group. Its generator is compiled if it is not there yet.
func (g *group) joint(ctx context.Context, index int) (j *joint, err error) {
	err = g.inTurn(ctx, func() error {
		if j = g.joints[index]; j != nil {
			return nil
		}
		e := g.engines[index]
		size := e.Model.Generator()
		size.Texts = g.opt.Texts
		gen, err := e.generator(ctx, size, !g.filled[size.Context])
		if err != nil {
			return err
		}
		g.filled[size.Context] = true
		j = newJoint(gen, g.inTurn)
		j.loaded = func(programs int) { g.programs.Add(int32(programs)) }
		j.loaded(gen.Programs())
		g.joints[index] = j
		return nil
	})
	return j, err
}
