package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Trained is a trained model on devices: it evaluates and predicts with the
// weights that it was opened for. One goroutine uses it at a time.
type Trained struct {
	setup   *setup
	weights Weights
	used    Used
	values  *initial.Values   // the file of weights, likewise
	found   *rundir.Found     // the checkpoint, until its weights are loaded; nil: it is found anew, by used.ID
	fixed   bool              // weights were loaded: no other checkpoint is used from then on
	like    *datasets.Info    // the checkpoint's description of its data; nil: setup.info is of data itself
	data    *datasets.Dataset // nil until it is read

	speech   bool            // the plan is for Generate
	ofRun    bool            // the setup is a run's, which has its plan of training
	faulty   []device.Device // with the faults that were asked for, to be told if they do not happen
	losses   []LostDevice    // of the call under way
	ended    bool            // a call ended well
	warnings []string        // not yet returned by Warnings
}

// TrainedOptions are the options of OpenTrained. The zero value opens the config's own devices.
type TrainedOptions struct {
	// Devices are shared with other runs; nil: the model opens those of its config. Use are
	// those of them that the model may use; nil: all.
	Devices *Devices
	Use     []device.ID
	// Text plans memory for Generate: a percentage of memory is of what that takes. Eval and
	// Predict may then need more.
	Text bool
	// Faults make operations of the devices go wrong, for tests and drills; they count
	// operations from the first Eval or Predict on. On shared Devices they are ErrOptions:
	// give them to OpenDevices.
	Faults []fault.Fault
}

// OpenTrained opens a trained model: for predicting from files, and for
// evaluating on any data. The checkpoint describes the data that it was trained
// on; the config's data is read once it is asked for. The config may differ
// from training's in keys that decide neither what the model computes nor what
// validates; so may the data. Others fail with ErrChanged. With w.Init and no checkpoint in w.Dir, the
// config's data is what the weights were trained on. The caller closes it.
//
// Until the first Eval or Predict has loaded the weights, no process can begin to
// write to the checkpoint file. A run that trains there already goes on; if it deletes
// the checkpoint before it is loaded, the newest or best one then is used.
//
// On shared [Devices], the config's section devices counts for little: see there.
func OpenTrained(ctx context.Context, c *configs.Config, w Weights, o TrainedOptions) (_ *Trained, err error) {
	if c, err = sound(c); err != nil {
		return nil, err
	}
	shared, err := o.Devices.share(o.Use)
	if err != nil {
		return nil, err
	}
	if shared != nil && len(o.Faults) > 0 {
		return nil, fmt.Errorf("%w: faults of shared devices are given to OpenDevices", ErrOptions)
	}
	const key = "devices.op_by_op"
	if p := c.Where(key); c.Devices.Runs(configs.OpByOpTrace) && p != (configs.Pos{}) && p.Line == 0 { // a run's config may have it, from training
		return nil, at(p, fmt.Errorf("%w: %s: only training is recorded; give log in place of trace", ErrOptions, key))
	}
	w.Dir = osfile.Resolve(w.Dir)
	t := &Trained{setup: &setup{config: shared.configFor(c), sizes: newSizes(c, c.Train.Batch), shared: shared}, weights: w, speech: o.Text, warnings: slices.Clone(c.Notes)}
	opened := false
	defer func() {
		if !opened {
			err = errors.Join(err, t.release())
		}
	}()
	if err := checkOwnModel(c, w.Model); err != nil {
		return nil, err
	}
	if err := t.find(ctx); err != nil {
		return nil, err
	}
	s := t.setup
	s.spec = modelSpec(c, s.info, w.Model)
	if t.found != nil {
		if err := t.suits(); err != nil {
			return nil, err
		}
	}
	err = s.open(func() error { return t.plan(ctx) })
	if err != nil {
		return nil, err
	}
	faulty, err := fault.Wrap(s.devs, o.Faults)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.devs, t.faulty, opened = faulty, faulty, true
	return t, nil
}

// plan cuts the model. Where there is no room for a microbatch of training, it
// reads the data, which may have fewer samples than that.
func (t *Trained) plan(ctx context.Context) error {
	refused := t.planned(ctx)
	planned := t.setup.sizes.microbatch
	if !errors.Is(refused, partition.ErrMemory) || t.speech {
		return refused
	}
	if _, err := t.read(ctx); err != nil || t.setup.sizes.microbatch == planned {
		return refused
	}
	return t.planned(ctx)
}

// planned cuts the model for a microbatch.
func (t *Trained) planned(ctx context.Context) error {
	s := t.setup
	g, err := t.graph(ctx)
	if err != nil {
		return err
	}
	o, err := s.options(ctx)
	if err != nil {
		return err
	}
	o.Microbatches, o.LastMicrobatches, o.Replicas, o.Schedule, o.Order = 1, 1, 1, "", nil // nothing goes back
	if found, err := s.planGroups(g, o); found || err != nil {
		return err
	}
	if s.plan, err = partition.New(g, o); err != nil || s.limits == nil || t.speech {
		return err
	}
	return t.fitAnswers(ctx)
}

// fitAnswers fails if the limits that percentages became have no room for predictions,
// whose answers stay on the device: the percentages are of an evaluation.
func (t *Trained) fitAnswers(ctx context.Context) error {
	s := t.setup
	g, err := models.Predict(s.spec, models.Size{Microbatch: s.sizes.microbatch, Stop: stopOf(ctx)})
	if err != nil {
		return nil // the model may have none
	}
	_, err = partition.SameCut(s.plan, g, stopOf(ctx))
	return err
}

// graph is the graph to plan for.
func (t *Trained) graph(ctx context.Context) (*graph.Graph, error) {
	s := t.setup
	if t.speech {
		m := s.trainedModel()
		if err := m.Speaks(); err != nil {
			return nil, err
		}
		return infer.GeneratorGraph(s.spec, m.Generator(), stopOf(ctx))
	}
	return models.Eval(s.spec, models.Size{Microbatch: s.sizes.microbatch, Stop: stopOf(ctx)})
}

// find reads the description of the data that the model was trained on, and
// which checkpoint is meant.
func (t *Trained) find(ctx context.Context) error {
	w := t.weights
	f, err := rundir.Find(ctx, w.Dir, w.Best, w.ID)
	if w.Init != "" && errors.Is(err, checkpoint.ErrNotFound) {
		t.used = Used{File: w.Init}
		if t.data, err = openData(ctx, t.setup.config, nil); err == nil {
			t.setup.info = &t.data.Info
		}
		return err
	}
	if err != nil {
		return err
	}
	t.found, t.used = f, usedOf(w, f)
	st, err := runstate.Of(&f.Snapshot.Manifest)
	if err == nil && restore.Untrained(&f.Snapshot.Manifest) { // its windows may have any length
		st.Data = importedInfo(st.Data.Tokenizer, t.setup.config.Data.Context)
	}
	t.setup.info, t.like = &st.Data, &st.Data
	switch {
	case err != nil:
		return err
	case w.Init != "":
		return t.release()
	}
	return nil
}

// release lets others write to the checkpoint file, and closes a file of weights.
func (t *Trained) release() (err error) {
	if f := t.found; f != nil {
		t.found = nil
		err = f.Close()
	}
	if x := t.values; x != nil {
		t.values = nil
		err = errors.Join(err, x.Close())
	}
	return err
}

// loaded releases what the weights were read from, unless devices read them
// again and again.
func (t *Trained) loaded() error {
	if t.setup.anyTight() {
		return nil
	}
	return t.release()
}

// trained is the run's model with weights that it was trained to, on the run's
// data.
func (r *Run) trained(ctx context.Context, w Weights) (*Trained, error) {
	if err := r.setup.usable(); err != nil {
		return nil, err
	}
	w.Dir = osfile.Resolve(w.Dir)
	t := &Trained{setup: r.setup, weights: w, used: Used{File: w.Init}, data: r.Data, ofRun: true}
	if w.Init != "" {
		return t, nil
	}
	f, err := rundir.Find(ctx, w.Dir, w.Best, w.ID)
	if err != nil {
		return nil, err
	}
	t.found, t.used = f, usedOf(w, f)
	if err := t.suits(); err != nil {
		return nil, errors.Join(err, t.release())
	}
	return t, nil
}

// Eval computes loss and metrics over the validation part, or over the
// training part where there is no other, with a checkpoint of this run's model
// and data, or a file of weights.
func (r *Run) Eval(ctx context.Context, w Weights) (Evaluation, error) {
	t, err := r.trained(ctx, w)
	if err != nil {
		return Evaluation{}, err
	}
	return t.Eval(ctx)
}

// Predict is [Trained.Predict] with a checkpoint of this run's model and data,
// or a file of weights.
func (r *Run) Predict(ctx context.Context, w Weights, path string, emit func(Prediction) error) (Used, error) {
	t, err := r.trained(ctx, w)
	if err != nil {
		return Used{}, err
	}
	return t.Predict(ctx, path, emit)
}

// Notes say how evaluation is other than its user may expect: what percentages of
// memory became, less memory than a microbatch would take, and a model that was
// trained on one batch.
func (t *Trained) Notes() []string {
	notes := t.setup.memoryNotes()
	if t.like != nil && restore.IsOneBatch(t.like.Fingerprint) {
		notes = append(notes, "the run trained on one batch alone, to check the model: all samples of its config's data count as other data")
	}
	return notes
}

// Used says which weights the model has.
func (t *Trained) Used() Used { return t.used }

// Info describes the data that the model was trained on: its classes, for
// example.
func (t *Trained) Info() *datasets.Info { return t.setup.info }

// CanGenerate is nil where [Trained.Generate] continues texts with the model, else the
// reason why not.
func (t *Trained) CanGenerate() error {
	m := t.setup.trainedModel()
	return m.Speaks()
}

// Close closes the devices. It fails if anything on them was not freed, and with
// ErrInUse within a call of Eval or Predict.
func (t *Trained) Close() error {
	err := t.setup.close()
	if errors.Is(err, ErrInUse) {
		return err
	}
	return errors.Join(t.release(), err)
}

// Reads are the files and folders that the model and its data are read from, so that
// nothing is written over them. samples are the paths that Predict is called with.
func (t *Trained) Reads(samples ...string) []string {
	return append(inputsOf(t.setup.config, t.weights), samples...)
}

// Eval computes loss and metrics over the validation part, or over the
// training part where there is no other. Of data that the model was not trained
// on, every sample counts. The metrics are all that the model has and that take
// little time, and those of train.metrics.
func (t *Trained) Eval(ctx context.Context) (_ Evaluation, err error) {
	defer func() { err = errors.Join(err, t.release()) }()
	if err := t.setup.usable(); err != nil {
		return Evaluation{}, err
	}
	data, err := t.read(ctx)
	if err != nil {
		return Evaluation{}, err
	}
	part, name := t.evaluated(data)
	res := Evaluation{Part: name, Samples: part.Samples()}
	j, err := t.judgeOf(ctx, part)
	if err != nil {
		return Evaluation{}, err
	}
	var score infer.Score
	var done infer.Progress
	err = t.onWith(ctx, residency.TenantOptions{Floors: j.Floors, Peaks: j.Peaks}, &done, func(rt *executor.Runtime) error {
		score, err = t.engine(rt, true).Evaluate(ctx, j, part, &done)
		return err
	})
	if err != nil {
		return Evaluation{}, answer.Advised(err)
	}
	res.Weights = t.used
	res.Loss, res.Accuracy, res.RMSE, res.DeviceLosses = score.Loss, score.Accuracy, t.setup.rmse(&score.Loss), t.losses
	err = res.Take(ctx, j, score)
	if text := t.setup.worse(res.Metrics); text != "" && err == nil {
		t.warnings = append(t.warnings, text)
	}
	return res, err
}

// evaluated is the part of data that an evaluation is over, and its name in results.
func (t *Trained) evaluated(data *datasets.Dataset) (part *datasets.Part, name string) {
	switch {
	case data.Val != nil:
		return data.Val, "validation"
	case t.elsewhere(data):
		return data.Train, "all"
	}
	return data.Train, "training"
}

// Predict runs the model on the samples of a file in the format of the run's
// data, or on the validation part for an empty path, and hands over each
// answer in order. emit's error ends it.
func (t *Trained) Predict(ctx context.Context, path string, emit func(Prediction) error) (_ Used, err error) {
	defer func() { err = errors.Join(err, t.release()) }()
	if err := t.setup.usable(); err != nil {
		return t.used, err
	}
	parts, err := t.samples(ctx, path)
	if err != nil {
		return t.used, err
	}
	first := 0
	var odd answer.OddAnswers
	for i, part := range parts {
		var done infer.Progress
		err := t.on(ctx, &done, func(rt *executor.Runtime) error {
			return t.engine(rt, i == len(parts)-1).Predict(ctx, part, &done, func(p Prediction) error {
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

// engine answers with the weights, which it loads. last says that no other engine of this
// call does: the checkpoint is let go of.
func (t *Trained) engine(rt *executor.Runtime, last bool) *answer.Engine {
	return answer.NewEngine(rt, t.setup.trainedModel(), answer.EngineOptions{
		Load: func(ctx context.Context, to answer.Loader) error {
			err := t.load(ctx, to)
			if last && err == nil {
				err = t.loaded()
			}
			return err
		},
		Ran: func(batches []int) { t.setup.debug.Batches(t.setup.devs, t.setup.groupDevices(), batches) },
	})
}

// read is the config's data. A microbatch has at most the samples of its training
// part, as in training: scores are the same to the bit.
func (t *Trained) read(ctx context.Context) (*datasets.Dataset, error) {
	if t.data != nil {
		return t.data, nil
	}
	data, err := openData(ctx, t.setup.config, t.like)
	if err != nil {
		return nil, err
	}
	t.data, t.setup.sizes.microbatch = data, min(t.setup.sizes.microbatch, data.Train.Len())
	if t.elsewhere(data) { // the training has told those of its own
		t.warnings = append(t.warnings, data.Notes...)
	}
	return data, nil
}

// elsewhere reports whether data is other than the model was trained on.
func (t *Trained) elsewhere(data *datasets.Dataset) bool {
	return t.like != nil && t.like.Fingerprint != data.Info.Fingerprint
}

// samples are those to predict from, a part for each shape of them.
func (t *Trained) samples(ctx context.Context, path string) ([]*datasets.Part, error) {
	if path != "" {
		spec, err := inputSpec(ctx, t.setup.config, path)
		if err != nil {
			return nil, err
		}
		spec.Text.Note = func(text string) { t.warnings = append(t.warnings, text) }
		parts, err := datasets.OpenInputs(ctx, spec, t.setup.info, path)
		switch {
		case err == nil:
			return parts, nil
		case ctx.Err() != nil: // the file may well be good
			return nil, fmt.Errorf("%w while %s was read", context.Cause(ctx), path)
		}
		return nil, unusable(err)
	}
	data, err := t.read(ctx)
	switch {
	case err != nil:
		return nil, err
	case data.Val != nil:
		return []*datasets.Part{data.Val}, nil
	case t.elsewhere(data):
		return []*datasets.Part{data.Train}, nil
	}
	return nil, fmt.Errorf("%w: there is no validation part (data.split %v): name a file to predict from", ErrData, t.setup.config.Data.Split)
}
