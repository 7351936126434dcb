package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/infer"
)

// test evaluates the test part, with the weights that `trainer eval` takes: those of the best
// checkpoint, or of the newest one where none has the metric. It does so once the run is completed,
// and once for those weights, where weights is the hash of the newest: a report that has it is repeated. nil: there
// is no test part, or steps are left. The run trains no more after it.
func (a *attempt) test(ctx context.Context, weights string) (*Test, error) {
	part := a.run.Data.Test
	if part == nil || !a.goal.completed(&a.at) {
		return nil, nil
	}
	snap, old, err := a.takeBest(ctx, weights)
	if err != nil || old != nil {
		return old, err
	}
	score, err := a.scoreTest(ctx)
	if err == nil && !a.leads() {
		return nil, nil
	}
	if err == nil && (math.IsNaN(score.Loss) || math.IsInf(score.Loss, 0)) {
		err = fmt.Errorf("its loss is %w", device.ErrNonFinite)
	} else if err != nil && a.crew() != nil {
		return nil, fmt.Errorf("the test part has no result: %w", err) // and ranks send each other nothing any more
	}
	if errors.Is(err, device.ErrNonFinite) {
		a.opt.Observer.warn(fmt.Sprintf("the test part has no result: %v", err))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &Test{
		Checkpoint: snap.Manifest.ID, Step: snap.Manifest.Step, Samples: part.Samples(),
		Loss: score.Loss, Accuracy: score.Accuracy, RMSE: a.session.RMSE(&score.Loss),
	}
	t.Metrics, err = a.session.Tester.Values(ctx, score)
	return t, err
}

// scoreTest evaluates the test part in place of the validation part, whose evaluation is over: the
// two never take memory at once.
func (a *attempt) scoreTest(ctx context.Context) (score infer.Score, err error) {
	if a.eval != nil {
		if err := a.eval.Close(); err != nil {
			return score, err
		}
		a.eval = nil
	}
	e, err := infer.NewEvaluator(ctx, a.rt, a.session.Tester.Model(a.session.Model()), a.session.Tester.Part)
	if err != nil {
		return score, err
	}
	score, err = e.Run(ctx)
	return score, errors.Join(err, e.Close())
}

// judged is what is to become of the test part: rank 0 tells the others.
type judged struct {
	Old     *Test               // it was evaluated before
	Tensors []checkpoint.Tensor // to take from a checkpoint
}

// takeBest gives the variables of the model the contents of the checkpoint that is to be judged, if it is
// not the newest one. old is what a report has of these weights, where weights is the hash of the newest; nil: nothing.
func (a *attempt) takeBest(ctx context.Context, weights string) (snap *checkpoint.Snapshot, old *Test, err error) {
	var j judged
	if a.leads() {
		if snap, _, err = rundir.Pick(ctx, a.folder.DB, rundir.Weights{}); err != nil {
			return nil, nil, err
		}
		j = a.judged(snap, weights)
	}
	if a.crew() != nil {
		if err := a.shareJSON(ctx, "which weights the test part is for", &j); err != nil {
			return nil, nil, err
		}
	}
	for _, t := range j.Tensors {
		b := make([]byte, t.Meta.Bytes())
		if a.leads() {
			err = snap.Read(t.Name, 0, b)
		}
		if err == nil && a.crew() != nil {
			err = a.crew().ShareBytes(ctx, t.Name, b)
		}
		if err == nil {
			_, err = a.prog.Replace(ctx, t.Name, b)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return snap, j.Old, nil
}

// judged decides about the test part.
func (a *attempt) judged(snap *checkpoint.Snapshot, weights string) (j judged) {
	var old Report
	if a.opt.Resume && !a.opt.AllowChanged && json.Unmarshal(a.folder.Report(), &old) == nil && old.Test != nil && old.WeightsSHA256 == weights && old.Test.Checkpoint == snap.Manifest.ID {
		j.Old = old.Test
	}
	if snap.Manifest.Step == a.at.Step {
		return j
	}
	for _, t := range snap.Tensors() {
		if t.Role == graph.Parameter.String() || t.Role == graph.Statistic.String() || t.Role == graph.Average.String() {
			j.Tensors = append(j.Tensors, t)
		}
	}
	return j
}
