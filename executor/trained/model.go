package trained

import (
	"context"
	"errors"
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
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
)

// Model is a trained model on devices: it evaluates and predicts with the weights that it was
// opened for. One goroutine uses it at a time.
type Model struct {
	session *session.Session
	source  Source
	weights Weights
	used    checkpoint.Used
	values  *initial.Values   // the file of weights, until they are loaded
	found   *rundir.Found     // the checkpoint, likewise; nil: it is found anew, by used.ID
	fixed   bool              // weights were loaded: no other checkpoint is used from then on
	like    *datasets.Info    // the checkpoint's description of its data; nil: the session's is of data itself
	data    *datasets.Dataset // nil until it is read

	speech   bool                // the plan is for Generate
	ofRun    bool                // the session is a training's, which has its plan
	faulty   []device.Device     // with the faults that were asked for, to be told if they do not happen
	losses   []answer.LostDevice // of the call under way
	ended    bool                // a call ended well
	warnings []string            // not yet returned by Warnings
}

// Weights says which weights to use: a run folder's checkpoint, or a file.
type Weights struct {
	Dir  string // run folder
	Best bool   // its best checkpoint by the watched metric, not its newest
	ID   uint64 // the checkpoint with this ID; 0: the newest, or the best
	Init string // FILE.safetensors[:PREFIX] in place of a checkpoint

	Model models.Layer // of a config with `model: {preset: given}`, for berth.OpenTrained; Open has Source.Spec
}

// Used words a checkpoint that was found.
func (w Weights) Used(f *rundir.Found) checkpoint.Used {
	if w.Init != "" {
		return checkpoint.Used{File: w.Init, Skipped: f.Skipped}
	}
	m := &f.Snapshot.Manifest
	return checkpoint.Used{ID: m.ID, Step: m.Step, Best: f.BestID == m.ID, BestID: f.BestID, Skipped: f.Skipped}
}

// Source is what a config stands for, as far as a trained model needs it.
type Source struct {
	// Data reads the config's data; like describes what the model was trained on, nil for the
	// data itself.
	Data func(ctx context.Context, like *datasets.Info) (*datasets.Dataset, error)
	// Inputs describes the samples in a file.
	Inputs func(ctx context.Context, path string) (datasets.Spec, error)
	// Spec is the model for data.
	Spec func(info *datasets.Info) models.Spec
}

// Options are the options of Open.
type Options struct {
	Shared *session.Share // the devices to use; nil: the config's, for this model alone
	Text   bool           // plan for Generate
	Faults []fault.Fault  // of the model's own devices
}

// Open finds the checkpoint that is meant, opens the devices and plans. The config's data is read
// once it is needed. The caller closes the model.
func Open(ctx context.Context, c *configs.Config, w Weights, source Source, o Options) (_ *Model, err error) {
	w.Dir = osfile.Resolve(w.Dir)
	t := &Model{source: source, weights: w, speech: o.Text, warnings: slices.Clone(c.Notes)}
	opened := false
	defer func() {
		if !opened {
			err = errors.Join(err, t.release())
		}
	}()
	info, err := t.find(ctx, c)
	if err != nil {
		return nil, err
	}
	spec := source.Spec(info)
	if t.found != nil {
		m, err := session.Lineage(c, info, &spec)
		if err == nil {
			err = m.Suits(&t.found.Snapshot.Manifest)
		}
		if err != nil {
			return nil, err
		}
	}
	t.session, err = session.Open(session.Options{
		Config: c, Info: info, Spec: spec, Sizes: session.NewSizes(c, c.Train.Batch), Shared: o.Shared,
	}, func(s *session.Session) error { return t.plan(ctx, s) })
	if err != nil {
		return nil, err
	}
	if t.faulty, err = fault.Wrap(t.session.Devices, o.Faults); err != nil {
		return nil, errors.Join(err, t.session.Close())
	}
	t.session, opened = t.session.On(t.faulty), true
	return t, nil
}

// Of is a model on the devices of a training, with its plan and its data.
func Of(ctx context.Context, s *session.Session, data *datasets.Dataset, w Weights, source Source) (*Model, error) {
	if err := s.Usable(); err != nil {
		return nil, err
	}
	w.Dir = osfile.Resolve(w.Dir)
	t := &Model{session: s, source: source, weights: w, used: checkpoint.Used{File: w.Init}, data: data, ofRun: true}
	if w.Init != "" {
		return t, nil
	}
	if err := t.pick(ctx); err != nil {
		return nil, err
	}
	if err := t.suits(); err != nil {
		return nil, errors.Join(err, t.release())
	}
	return t, nil
}

// find reads the description of the data that the model was trained on, and
// which checkpoint is meant.
func (t *Model) find(ctx context.Context, c *configs.Config) (*datasets.Info, error) {
	w := t.weights
	f, err := rundir.Find(ctx, w.Dir, w.Best, w.ID)
	if w.Init != "" && errors.Is(err, checkpoint.ErrNotFound) {
		t.used = checkpoint.Used{File: w.Init}
		if t.data, err = t.source.Data(ctx, nil); err != nil {
			return nil, err
		}
		return &t.data.Info, nil
	}
	if err != nil {
		return nil, err
	}
	t.found, t.used = f, w.Used(f)
	st, err := runstate.Of(&f.Snapshot.Manifest)
	if err != nil {
		return nil, err
	}
	if restore.Untrained(&f.Snapshot.Manifest) { // its windows may have any length
		st.Data = restore.ImportedInfo(st.Data.Tokenizer, c.Data.Context)
	}
	t.like = &st.Data
	if w.Init != "" {
		return t.like, t.release()
	}
	return t.like, nil
}

// plan cuts the model. Where there is no room for a microbatch of training, it
// reads the data, which may have fewer samples than that.
func (t *Model) plan(ctx context.Context, s *session.Session) error {
	refused := t.planned(ctx, s)
	if !errors.Is(refused, partition.ErrMemory) || t.speech || t.data != nil {
		return refused
	}
	planned := s.Sizes.Microbatch
	if err := t.read(ctx, s); err != nil || s.Sizes.Microbatch == planned {
		return refused
	}
	return t.planned(ctx, s)
}

// planned cuts the model for a microbatch.
func (t *Model) planned(ctx context.Context, s *session.Session) error {
	g, err := t.graph(ctx, s)
	if err != nil {
		return err
	}
	if s.Plan, s.Groups, err = s.Planner.Answers(ctx, g); err != nil || s.Groups.Count > 0 || !s.Limited() || t.speech {
		return err
	}
	return fitAnswers(ctx, s)
}

// fitAnswers fails if the limits that percentages became have no room for predictions,
// whose answers stay on the device: the percentages are of an evaluation.
func fitAnswers(ctx context.Context, s *session.Session) error {
	g, err := models.Predict(s.Spec, models.Size{Microbatch: s.Sizes.Microbatch, Stop: stop.Of(ctx)})
	if err != nil {
		return nil // the model may have none
	}
	_, err = partition.Derive(s.Plan, g, partition.DeriveOptions{For: partition.Answers, Stop: stop.Of(ctx)})
	return err
}

// graph is the graph to plan for.
func (t *Model) graph(ctx context.Context, s *session.Session) (*graph.Graph, error) {
	if t.speech {
		m := s.Trained()
		if err := m.Speaks(); err != nil {
			return nil, err
		}
		return infer.GeneratorGraph(s.Spec, m.Generator(), stop.Of(ctx))
	}
	return models.Eval(s.Spec, models.Size{Microbatch: s.Sizes.Microbatch, Stop: stop.Of(ctx)})
}

// release lets others write to the checkpoint file, and closes a file of weights.
func (t *Model) release() (err error) {
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
func (t *Model) loaded() error {
	if t.session.Plan.AnyTight() {
		return nil
	}
	return t.release()
}

// Notes say how evaluation is other than its user may expect: what percentages of
// memory became, less memory than a microbatch would take, and a model that was
// trained on one batch.
func (t *Model) Notes() []string {
	notes := t.session.MemoryNotes()
	if t.like != nil && restore.IsOneBatch(t.like.Fingerprint) {
		notes = append(notes, "the run trained on one batch alone, to check the model: all samples of its config's data count as other data")
	}
	return notes
}

// Used says which weights the model has.
func (t *Model) Used() checkpoint.Used { return t.used }

// Info describes the data that the model was trained on: its classes, for
// example.
func (t *Model) Info() *datasets.Info { return t.session.Info }

// Classifies reports whether the model's answers are classes, and not numbers.
func (t *Model) Classifies() bool {
	m := t.session.Trained()
	return m.Classifies()
}

// CanGenerate is nil where Generate continues texts with the model, else the
// reason why not.
func (t *Model) CanGenerate() error {
	m := t.session.Trained()
	return m.Speaks()
}

// Reads are the files and folders that the model and its data are read from.
func (t *Model) Reads() []string { return t.session.Inputs(t.weights.Init) }

// CheckOpen refuses a closed model, and one whose shared devices are closed.
func (t *Model) CheckOpen() error { return t.session.CheckOpen() }

// Close closes the devices. It fails if anything on them was not freed, and with
// errs.ErrInUse within a call.
func (t *Model) Close() error {
	err := t.session.Close()
	if errors.Is(err, errs.ErrInUse) {
		return err
	}
	return errors.Join(t.release(), err)
}
