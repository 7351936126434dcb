package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Weights says which weights to use: a run folder's checkpoint, or a file.
type Weights struct {
	Dir  string // run folder
	Best bool   // its best checkpoint by the watched metric, not its newest
	ID   uint64 // that checkpoint, not the newest; 0 for none in particular
	Init string // FILE.safetensors[:PREFIX] in place of a run folder
}

// use fills a program's variables and copies them in. A checkpoint must have been trained on
// data like the run's: its scaling and its classes are part of the model.
func (r *Run) use(ctx context.Context, w Weights, p *executor.Program) error {
	if w.Init != "" {
		c, err := r.initial(w.Init)
		if err != nil {
			return err
		}
		return errors.Join(p.Init(ctx, c.read), c.close())
	}
	return withCheckpoint(ctx, w, func(s *checkpoint.Snapshot) error {
		if err := r.unchanged(&s.Manifest); err != nil {
			return err
		}
		return p.Init(ctx, snapshotContents(s))
	})
}

// withCheckpoint opens the checkpoint that w means, for reading.
func withCheckpoint(ctx context.Context, w Weights, f func(*checkpoint.Snapshot) error) error {
	db, err := checkpoint.Open(CheckpointPath(w.Dir), checkpoint.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	snap, err := PickCheckpoint(ctx, db, w)
	if err == nil {
		err = f(snap)
	}
	return errors.Join(err, db.Close())
}

// OpenTrained opens a run for predicting from files, without the data it was
// trained on: what must be known of that is in the checkpoint.
func OpenTrained(ctx context.Context, c *configs.Config, w Weights) (*Run, error) {
	r := &Run{Config: c, Data: &datasets.Dataset{Name: c.Data.Source}, sizes: newSizes(c, c.Train.Batch)}
	err := withCheckpoint(ctx, w, func(s *checkpoint.Snapshot) error {
		st, err := stateOf(&s.Manifest)
		r.Data.Info = st.Data
		return err
	})
	if err != nil {
		return nil, err
	}
	r.spec = modelSpec(c, &r.Data.Info)
	return r.opened(func() error {
		g, err := models.Predict(r.spec, r.sizes.microbatch)
		if err != nil {
			return err
		}
		o := r.planOptions()
		o.Microbatches = 1
		r.Plan, err = partition.New(g, o)
		return err
	})
}

// PickCheckpoint finds the checkpoint that w means among those of a run folder.
func PickCheckpoint(ctx context.Context, db *checkpoint.DB, w Weights) (*checkpoint.Snapshot, error) {
	switch {
	case w.ID != 0:
		return db.Load(w.ID)
	case w.Best:
		s, _, err := db.Best(ctx)
		return s, err
	}
	s, _, err := db.Latest(ctx)
	return s, err
}

// Eval computes loss and accuracy over the validation part, or over the
// training part where there is no other.
func (r *Run) Eval(ctx context.Context, w Weights) (Evaluation, error) {
	if err := r.usable(); err != nil {
		return Evaluation{}, err
	}
	part := r.Data.Val
	if part == nil {
		part = r.Data.Train
	}
	rt, err := executor.NewRuntime(r.devs, residency.Options{})
	if err != nil {
		return Evaluation{}, err
	}
	res, err := r.evalOn(ctx, rt, part, w)
	return res, errors.Join(err, rt.Close())
}

func (r *Run) evalOn(ctx context.Context, rt *executor.Runtime, part *datasets.Part, w Weights) (Evaluation, error) {
	e, err := r.newEvaluator(rt, part)
	if err != nil {
		return Evaluation{}, err
	}
	if err := r.use(ctx, w, e.prog); err != nil {
		return Evaluation{}, err
	}
	return e.run(ctx)
}

// Prediction is the model's answer for one sample. For classes, Values are
// their probabilities, Class the likeliest one, and Label its name; a text's
// answer is about the character after the sample's last one. For regression,
// Values are the numbers.
type Prediction struct {
	Index  int       `json:"index"`
	Class  *int      `json:"class,omitempty"`
	Label  string    `json:"label,omitempty"`
	Values []float32 `json:"values"`
}

// Predict runs the model on the samples of a file in the format of the run's
// data, or on the validation part for an empty path, and hands over each
// answer in order. emit's error ends it.
func (r *Run) Predict(ctx context.Context, w Weights, path string, emit func(Prediction) error) error {
	if err := r.usable(); err != nil {
		return err
	}
	part, err := r.samples(ctx, path)
	if err != nil {
		return err
	}
	rt, err := executor.NewRuntime(r.devs, residency.Options{})
	if err != nil {
		return err
	}
	return errors.Join(r.predictOn(ctx, rt, part, w, emit), rt.Close())
}

func (r *Run) samples(ctx context.Context, path string) (*datasets.Part, error) {
	switch {
	case path != "":
		return datasets.OpenInputs(ctx, datasetSpec(r.Config), &r.Data.Info, path)
	case r.Data.Val != nil:
		return r.Data.Val, nil
	}
	return nil, fmt.Errorf("%w: there is no validation part: name a file to predict from", ErrData)
}

func (r *Run) predictOn(ctx context.Context, rt *executor.Runtime, part *datasets.Part, w Weights, emit func(Prediction) error) error {
	p, err := r.loadPredict(rt, part)
	if err != nil {
		return err
	}
	if err := r.use(ctx, w, p); err != nil {
		return err
	}
	return r.each(ctx, rt, p, part, func(b datasets.Batch) error { return r.answer(ctx, rt, p, b, emit) })
}

// loadPredict compiles the prediction graph for batches of a part.
func (r *Run) loadPredict(rt *executor.Runtime, part *datasets.Part) (*executor.Program, error) {
	batch := min(r.sizes.microbatch, part.Len())
	g, err := models.Predict(r.spec, batch)
	if err != nil {
		return nil, err
	}
	o := executor.Options{Net: "predict", Fetch: true, LastMicrobatches: 1}
	if o.Full, err = r.sameCut(g); err != nil {
		return nil, err
	}
	if rest := part.Len() % batch; rest > 0 {
		last, err := models.Predict(r.spec, rest)
		if err != nil {
			return nil, err
		}
		if o.Tail, err = o.Full.Rebind(last); err != nil {
			return nil, err
		}
	}
	return rt.Load(o)
}

// answer fetches the output of a batch that has run.
func (r *Run) answer(ctx context.Context, rt *executor.Runtime, p *executor.Program, b datasets.Batch, emit func(Prediction) error) error {
	out, err := p.Output(models.PredictOutput, b.Samples)
	if err != nil {
		return err
	}
	v, err := floats(ctx, rt.Residency, residency.Fetch, out)
	if err != nil {
		return err
	}
	per := len(v) / b.Samples
	for i := range b.Samples {
		if err := emit(r.prediction(b.At.Index+i, v[i*per:(i+1)*per])); err != nil {
			return err
		}
	}
	return rt.Residency.Drop(out)
}

// prediction words one sample's output.
func (r *Run) prediction(index int, v []float32) Prediction {
	info := &r.Data.Info
	if !r.spec.Classifies() || info.Classes == 0 {
		return Prediction{Index: index, Values: slices.Clone(v)}
	}
	v = v[len(v)-info.Classes:] // the last position of a sequence
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	p := Prediction{Index: index, Class: &best, Values: slices.Clone(v)}
	switch {
	case info.Vocab != nil:
		p.Label = string(info.Vocab.Decode([]int32{int32(best)}))
	case best < len(info.ClassNames):
		p.Label = info.ClassNames[best]
	}
	return p
}
