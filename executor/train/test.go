package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/infer"
)

// test evaluates the test part, with the weights that have a hash: those of the run's last
// checkpoint, which end has saved. It does so once the run is completed, and once for those
// weights: a report that has it is repeated. nil: there is no test part, or steps are left.
func (a *attempt) test(ctx context.Context, weights string) (*Test, error) {
	part := a.run.Data.Test
	if part == nil || !a.goal.completed(&a.at) {
		return nil, nil
	}
	saved, err := a.newestSaved()
	if err != nil {
		return nil, err
	}
	var old Report
	if a.opt.Resume && !a.opt.AllowChanged && json.Unmarshal(a.folder.Report(), &old) == nil && old.Test != nil && old.WeightsSHA256 == weights && old.Test.Checkpoint == saved {
		return old.Test, nil
	}
	score, err := a.scoreTest(ctx)
	if errors.Is(err, device.ErrNonFinite) {
		a.opt.Observer.warn(fmt.Sprintf("the test part has no result: %v", err))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &Test{
		Checkpoint: saved, Step: a.at.Step, Samples: part.Samples(),
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
	score, err = e.Run(ctx, nil)
	if err == nil && (math.IsNaN(score.Loss) || math.IsInf(score.Loss, 0)) {
		err = fmt.Errorf("its loss is %w", device.ErrNonFinite)
	}
	return score, errors.Join(err, e.Close())
}

// newestSaved is the newest checkpoint.
func (a *attempt) newestSaved() (id uint64, err error) {
	list, _, err := a.folder.DB.List()
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return list[len(list)-1].ID, nil
}
