package trained

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Eval computes loss and metrics over the validation part, or over the
// training part where there is no other. Of data that the model was not trained
// on, every sample counts. The metrics are all that the model has and that take
// little time, and those of train.metrics.
func (t *Model) Eval(ctx context.Context) (answer.Evaluation, error) {
	return t.eval(ctx, func() (*datasets.Part, string, error) {
		part, name := t.evaluated(t.data)
		return part, name, nil
	})
}

// EvalTest is Eval over the test part, which training has evaluated once at its end.
func (t *Model) EvalTest(ctx context.Context) (answer.Evaluation, error) {
	return t.eval(ctx, func() (*datasets.Part, string, error) {
		switch {
		case t.data.Test != nil:
			return t.data.Test, "test", nil
		case t.elsewhere(t.data):
			return nil, "", fmt.Errorf("%w: the data is not what the model was trained on, so it has no test part: evaluate it as a whole", errs.ErrData)
		}
		return nil, "", fmt.Errorf("%w: there is no test part: data.split names none", errs.ErrData)
	})
}

// eval evaluates the part that choose gives, by its name in results, once the data is read.
func (t *Model) eval(ctx context.Context, choose func() (part *datasets.Part, name string, err error)) (_ answer.Evaluation, err error) {
	defer func() { err = errors.Join(err, t.release()) }()
	if err := t.session.Usable(); err != nil {
		return answer.Evaluation{}, err
	}
	if err := t.readOnce(ctx); err != nil {
		return answer.Evaluation{}, err
	}
	part, name, err := choose()
	if err != nil {
		return answer.Evaluation{}, err
	}
	res := answer.Evaluation{Part: name, Samples: part.Samples()}
	j, err := t.judge(ctx, part)
	if err != nil {
		return answer.Evaluation{}, t.session.Placed(err)
	}
	var score infer.Score
	// After the loss of a device it begins again: what the device had summed is lost.
	err = t.onWith(ctx, residency.TenantOptions{Floors: j.Floors, Peaks: j.Peaks}, func(rt *executor.Runtime) error {
		score, err = t.engine(rt, true).Evaluate(ctx, j, part)
		return err
	})
	if err != nil {
		return answer.Evaluation{}, answer.Advised(err)
	}
	res.Weights = t.used
	res.Loss, res.Accuracy, res.RMSE, res.DeviceLosses = score.Loss, score.Accuracy, t.session.RMSE(&score.Loss), t.losses
	err = res.Take(ctx, j, score)
	if text := t.session.Worse(res.Metrics, t.session.Config.EarlyStopping.Patience > 0); text != "" && err == nil {
		t.warnings = append(t.warnings, text)
	}
	return res, err
}

// evaluated is the part of data that an evaluation is over, and its name in results.
func (t *Model) evaluated(data *datasets.Dataset) (part *datasets.Part, name string) {
	switch {
	case data.Val != nil:
		return data.Val, "validation"
	case t.elsewhere(data):
		return data.Train, "all"
	}
	return data.Train, "training"
}

// judge is the judge of an evaluation. Where a device has no memory for all metrics,
// it leaves out those that nobody has asked for, and says so.
func (t *Model) judge(ctx context.Context, part *datasets.Part) (*answer.Judge, error) {
	s := t.session
	j, err := s.NewJudge(ctx, part, session.AtEnd(s.Config))
	if !errors.Is(err, partition.ErrMemory) {
		return j, err
	}
	least, refused := s.NewJudge(ctx, part, session.AtEndFewer(s.Config))
	if refused != nil {
		return nil, err
	}
	t.warnings = append(t.warnings, fmt.Sprintf("some metrics are left out: %v", err))
	return least, nil
}

// Predict runs the model on the samples of a file in the format of the run's
// data, or on the validation part for an empty path, and hands over each
// answer in order. emit's error ends it.
func (t *Model) Predict(ctx context.Context, path string, emit func(answer.Prediction) error) (checkpoint.Used, error) {
	return t.predict(ctx, emit, func() ([]*datasets.Part, error) { return t.samples(ctx, path) })
}

// PredictRows is Predict for rows of a table, values by the names of their columns.
func (t *Model) PredictRows(ctx context.Context, rows []map[string]any, emit func(answer.Prediction) error) (checkpoint.Used, error) {
	return t.predict(ctx, emit, func() ([]*datasets.Part, error) {
		if len(rows) == 0 {
			return nil, nil
		}
		part, err := datasets.RowInputs(t.session.Info, rows)
		if err != nil {
			return nil, specs.BadData(err)
		}
		return []*datasets.Part{part}, nil
	})
}

// predict runs the model on samples.
func (t *Model) predict(ctx context.Context, emit func(answer.Prediction) error, samples func() ([]*datasets.Part, error)) (_ checkpoint.Used, err error) {
	defer func() { err = errors.Join(err, t.release()) }()
	if err := t.session.Usable(); err != nil {
		return t.used, err
	}
	parts, err := samples()
	if err != nil {
		return t.used, err
	}
	first := 0
	var odd answer.OddAnswers
	for i, part := range parts {
		var done infer.Progress
		err := t.on(ctx, func(rt *executor.Runtime) error {
			return t.engine(rt, i == len(parts)-1).Predict(ctx, part, &done, func(p answer.Prediction) error {
				p.Row = beside(part, p.Index)
				p.Index += first
				odd.Count(&p)
				return emit(p)
			})
		})
		if err != nil {
			return t.used, answer.Advised(err)
		}
		first += part.Samples()
	}
	if text := odd.Text(); text != "" {
		t.warnings = append(t.warnings, text)
	}
	return t.used, nil
}

// beside are the values of columns beside the answer for a sample, or the path of an image.
func beside(part *datasets.Part, sample int) (row []answer.Named) {
	names := part.WithNames()
	for i, text := range part.With(sample) {
		row = append(row, answer.Named{Name: names[i], Text: text})
	}
	return row
}

// Generate continues a text with a model of texts, and hands over each piece as soon as
// it is there. emit's error ends it. When ctx is cancelled it ends with the operation under
// way, and errs.ErrStopped; text that was held back, since a stop might have begun, is handed
// over before.
func (t *Model) Generate(ctx context.Context, o answer.GenerateOptions, emit func(answer.Piece) error) (res answer.Generation, err error) {
	all, err := t.GenerateAll(ctx, []answer.GenerateOptions{o}, func(_ int, p answer.Piece) error { return emit(p) })
	if len(all) > 0 {
		res = all[0]
	}
	return res, err
}

// GenerateAll is Generate for several texts at once, with one context. Each is the text that it is
// alone; its pieces are handed over with its index, by one goroutine at a time. A text with numbers
// that are not finite ends alone. The error is of the first text that has one; emit's ends all.
func (t *Model) GenerateAll(ctx context.Context, list []answer.GenerateOptions, emit func(text int, p answer.Piece) error) (all []answer.Generation, err error) {
	defer func() { err = errors.Join(err, t.release()) }()
	if err := t.session.Usable(); err != nil {
		return nil, err
	}
	within, cancel := ctx, func(error) {}
	if len(list) > 1 {
		c, end := context.WithCancelCause(ctx)
		within, cancel = c, end
		defer end(nil)
	}
	texts, err := t.texts(ctx, list, oneByOne(emit, cancel))
	if err != nil {
		return nil, err
	}
	needs, err := textNeeds(ctx, t.session, answer.SizeOf(texts))
	if err != nil {
		return nil, err
	}
	leave, err := t.session.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	t.losses = nil
	var ended []error
	err = t.onceWith(within, needs, func(rt *executor.Runtime) error {
		if ended, err = t.engine(rt, true).Generate(within, texts); err != nil {
			return err
		}
		return errors.Join(ended...)
	})
	t.ended = err == nil
	for i, text := range texts {
		all = append(all, text.Result())
		all[i].Weights = t.used
	}
	if ctx.Err() == nil && within.Err() != nil {
		err = context.Cause(within) // emit's error, which is no text's own
	} else if i := slices.IndexFunc(ended, func(err error) bool { return err != nil }); i >= 0 && len(texts) > 1 {
		return all, fmt.Errorf("prompt %d: %w", i+1, texts[i].Ended(ctx, ended[i]))
	}
	return all, texts[0].Ended(ctx, err)
}

// texts are the texts that options describe.
func (t *Model) texts(ctx context.Context, list []answer.GenerateOptions, emit func(text int, p answer.Piece) error) (texts []*answer.Text, err error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: there are no texts to generate: give one or more", errs.ErrOptions)
	}
	m := t.session.Trained()
	for i, o := range list {
		text, err := m.NewText(ctx, o, func(p answer.Piece) error { return emit(i, p) })
		switch {
		case err != nil && len(list) > 1:
			return nil, fmt.Errorf("prompt %d: %w", i+1, err)
		case err != nil:
			return nil, err
		case o.Context != list[0].Context:
			return nil, fmt.Errorf("%w: texts that are generated at once have contexts of %d and of %d tokens: give all the same", errs.ErrOptions, list[0].Context, o.Context)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// oneByOne is emit for several goroutines, whose error ends all texts.
func oneByOne(emit func(text int, p answer.Piece) error, cancel func(error)) func(int, answer.Piece) error {
	var mu sync.Mutex
	var failed error
	return func(text int, p answer.Piece) error {
		mu.Lock()
		defer mu.Unlock()
		if failed == nil {
			if failed = emit(text, p); failed != nil {
				cancel(failed)
			}
		}
		return failed
	}
}

// textNeeds is the memory for generating texts.
func textNeeds(ctx context.Context, s *session.Session, size infer.GeneratorOptions) (o residency.TenantOptions, err error) {
	plans, err := infer.GeneratorPlans(s.Trained().Infer, size, stop.Of(ctx))
	if err != nil {
		return o, s.Placed(err)
	}
	cover(s, &o, plans)
	return o, nil
}

// engine answers with the weights, which it loads. last says that no other engine of this
// call does: the checkpoint is let go of.
func (t *Model) engine(rt *executor.Runtime, last bool) *answer.Engine {
	s := t.session
	return answer.NewEngine(rt, s.Trained(), answer.EngineOptions{
		Load: func(ctx context.Context, to answer.Loader) error {
			err := t.load(ctx, to)
			if last && err == nil {
				err = t.loaded()
			}
			return err
		},
		Ran: func(batches []int) { s.Debug().Batches(s.Devices, s.GroupDevices(), batches) },
	})
}

// readOnce reads the config's data, unless it was. A microbatch then has at most the samples of its
// training part, as in training: scores are the same to the bit.
func (t *Model) readOnce(ctx context.Context) error {
	if t.data != nil {
		return nil
	}
	if err := t.read(ctx); err != nil {
		return err
	}
	t.session = t.session.InMicrobatches(t.data.Train.Len())
	return nil
}

// read reads the config's data.
func (t *Model) read(ctx context.Context) error {
	data, err := specs.OpenData(ctx, t.config, specs.DataOptions{Like: t.like, With: t.with})
	if err != nil {
		return err
	}
	t.data = data
	if t.elsewhere(data) { // the training has told those of its own
		t.warnings = append(t.warnings, data.Notes...)
	}
	return nil
}

// elsewhere reports whether data is other than the model was trained on.
func (t *Model) elsewhere(data *datasets.Dataset) bool {
	return t.like != nil && t.like.Fingerprint != data.Info.Fingerprint
}

// samples are those to predict from, a part for each shape of them.
func (t *Model) samples(ctx context.Context, path string) ([]*datasets.Part, error) {
	if path != "" {
		spec, err := specs.Inputs(ctx, t.config, path)
		if err != nil {
			return nil, err
		}
		spec.With = t.with
		spec.Note = func(text string) { t.warnings = append(t.warnings, text) }
		parts, err := datasets.OpenInputs(ctx, spec, t.session.Info, path)
		switch {
		case err == nil:
			return parts, nil
		case ctx.Err() != nil: // the file may well be good
			return nil, fmt.Errorf("%w while %s was read", context.Cause(ctx), path)
		}
		return nil, specs.BadData(err)
	}
	if err := t.readOnce(ctx); err != nil {
		return nil, err
	}
	switch {
	case t.data.Val != nil:
		return []*datasets.Part{t.data.Val}, nil
	case t.elsewhere(t.data):
		return []*datasets.Part{t.data.Train.InOrder()}, nil
	}
	return nil, fmt.Errorf("%w: there is no validation part (data.split): name a file to predict from", errs.ErrData)
}
