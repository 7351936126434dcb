package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
)

// evaluation evaluates a microbatch on one device of a world.
func (w *world) evaluation(dev int) (executor.LoadOptions, error) {
	g, err := models.Eval(w.spec, models.Size{Microbatch: w.microbatch})
	if err != nil {
		return executor.LoadOptions{}, err
	}
	pin := map[string]int{g.Nodes[0].Layer.Block: dev}
	p, err := partition.New(g, partition.PlanOptions{Devices: specs(w.devs), Count: 1, Microbatches: 1, Pin: pin, Ranks: w.of})
	return executor.LoadOptions{Net: fmt.Sprint("eval", dev), Full: p, Constant: w.constant}, err
}

// programs are a rank's: one that trains, and one for each device that evaluates there.
func (r *rank) programs(ctx context.Context, evalFirst bool) (evals []*executor.Program, err error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	load := func() error {
		for d := range r.world.devs {
			o, err := r.world.evaluation(d)
			if err != nil {
				return err
			}
			e, err := r.rt.Load(o)
			if err != nil {
				return err
			}
			evals = append(evals, e)
		}
		return nil
	}
	if evalFirst {
		err = load()
	}
	if err == nil {
		r.prog, err = r.rt.Load(r.world.opt)
	}
	if err == nil && !evalFirst {
		err = load()
	}
	for _, p := range append(evals[:len(evals):len(evals)], r.prog) {
		if err == nil {
			err = p.Init(ctx, first)
		}
	}
	return evals, err
}

// feedAll is a batch with all rows, also those that this rank's part of training does not read.
func (r *rank) feedAll(i int) (executor.Batch, error) {
	own := slices.IndexFunc(r.devs, func(d device.Device) bool { return d != nil })
	b := executor.Batch{Samples: r.batch()}
	for _, v := range r.prog.Inputs() {
		data := r.rows(v, i, b.Samples)
		hb, err := r.devs[own].AllocHost(int64(len(data)))
		if err != nil {
			return b, err
		}
		copy(hb.Bytes(), data)
		r.bufs, b.Fields = append(r.bufs, hb), append(b.Fields, hb)
	}
	return b, nil
}

// evaluated trains and evaluates in turns, and gives the sums of all evaluations.
func (w *world) evaluated(ctx context.Context, evalFirst bool) (sum []byte, err error) {
	sums := make([][]byte, len(w.ranks))
	err = w.all(func(r *rank) error {
		evals, err := r.programs(ctx, evalFirst)
		if err != nil {
			return err
		}
		for i := range 3 {
			b, err := r.feedAll(i)
			if err != nil {
				return err
			}
			for k, p := range append([]*executor.Program{r.prog}, evals...) {
				if k > 0 {
					b.Samples = r.microbatch
				}
				if _, err := p.Step(ctx, b); err != nil {
					return err
				}
			}
			if err := r.prog.Drain(ctx); err != nil {
				return err
			}
		}
		for _, e := range evals {
			if err := e.Drain(ctx); err != nil {
				return err
			}
		}
		if last := evals[len(evals)-1]; last.Holder(models.EvalLoss) == r.rank {
			b, err := onHost(ctx, r.rt, last.Var(models.EvalLoss))
			if err != nil {
				return err
			}
			sums[r.rank] = bytes.Clone(b)
		}
		_, err = r.prog.Whole()
		return err
	})
	return bytes.Join(sums, nil), err
}

// Programs share variables over ranks, whichever was loaded first: what one has written on a rank, another reads on the
// next.
func TestProgramsOfRanksShareVariables(t *testing.T) {
	var want []byte
	for _, of := range [][]int{{0, 0, 0}, {0, 1, 2}, {0, 0, 1}} {
		for _, evalFirst := range []bool{false, true} {
			devs, err := openDevices("cpu", len(of), 1)
			if err != nil {
				t.Fatal(err)
			}
			w := mustWorld(t, gptJob(4), devs, of, "1f1b")
			got, err := w.evaluated(short(t), evalFirst)
			if err != nil {
				t.Errorf("ranks %v, evaluations loaded first %v: %v", of, evalFirst, err)
			}
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("ranks %v, evaluations loaded first %v: the loss is % x, want % x", of, evalFirst, got, want)
			}
			if err := w.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// What a program had on a rank is gone there once it is closed: the next one is sent it anew.
func TestProgramsOfRanksLetVariablesGo(t *testing.T) {
	of := []int{0, 1, 2}
	devs, err := openDevices("cpu", len(of), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := mustWorld(t, gptJob(4), devs, of, "1f1b")
	ctx := short(t)
	err = w.all(func(r *rank) error {
		evals, err := r.programs(ctx, false)
		if err != nil {
			return err
		}
		b, err := r.feedAll(0)
		if err != nil {
			return err
		}
		b.Samples = r.microbatch
		for i := range evals {
			if _, err := evals[i].Step(ctx, b); err != nil {
				return err
			}
		}
		for i, e := range evals {
			if err := e.Close(); err != nil {
				return err
			}
			o, err := r.world.evaluation(i)
			if err == nil {
				evals[i], err = r.rt.Load(o)
			}
			if err != nil {
				return err
			}
		}
		for _, name := range []string{models.EvalLoss, models.EvalCorrect} {
			if x := evals[len(evals)-1].Var(name); x != nil {
				if err := r.rt.Residency.Fill(x, make([]byte, x.Meta().Bytes())); err != nil {
					return err
				}
			}
		}
		_, err = evals[len(evals)-1].Step(ctx, b)
		return errors.Join(err, evals[len(evals)-1].Drain(ctx))
	})
	if err := errors.Join(err, w.close()); err != nil {
		t.Error(err)
	}
}

// Ranks tell variables apart by their names, so a program with caches, of which texts have their own by one name, is refused.
func TestRanksHaveNoCaches(t *testing.T) {
	of := []int{0, 1}
	devs, err := openDevices("cpu", len(of), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := mustWorld(t, gptJob(4), devs, of, "1f1b")
	g, err := models.Generate(w.spec, models.GenerateSize{Rows: 1, Context: 4})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := partition.New(g, partition.PlanOptions{Devices: specs(devs), Count: 1, Microbatches: 1, Ranks: of})
	if err != nil {
		t.Fatal(err)
	}
	err = w.all(func(r *rank) error {
		if err := r.open(); err != nil {
			return err
		}
		_, err := r.rt.Load(executor.LoadOptions{Net: "generate", Full: plan, Constant: w.constant, Caches: "text1"})
		if !errors.Is(err, executor.ErrOptions) || !strings.Contains(err.Error(), "it has the cache ") || !strings.Contains(err.Error(), "load it in one process") {
			t.Errorf("rank %d: %v", r.rank, err)
		}
		return nil
	})
	if err := errors.Join(err, w.close()); err != nil {
		t.Error(err)
	}
}
