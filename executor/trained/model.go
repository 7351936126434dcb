package trained

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
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/executor"
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
	config  *configs.Config
	weights rundir.Weights
	used    checkpoint.Used
	values  *initial.Values   // the file of weights, until they are loaded
	found   *rundir.Found     // the checkpoint, likewise; nil: it is found anew, by used.ID
	fixed   bool              // weights were loaded: no other checkpoint is used from then on
	first   bool              // a service is being opened, before which no weights were loaded
	like    *datasets.Info    // the checkpoint's description of its data; nil: the session's is of data itself
	data    *datasets.Dataset // nil until it is read

	frozen string // hash of the weights that the checkpoint's adapter was trained beside; "": it has none
	beside string // the same, of the weights that the newest runtime has

	adapters []*adapted          // nil unless OpenAdapters opened the model: it is their base
	with     []string            // columns of a table whose texts answers have
	speech   bool                // the plan is for Generate
	ofRun    bool                // the session is a training's, which has its plan
	faulty   []device.Device     // with the faults that were asked for, to be told if they do not happen
	losses   []answer.LostDevice // of the call under way
	ended    bool                // a call ended well
	goneOn   bool                // a service has gone on without a device that was lost
	warnings []string            // not yet returned by Warnings
}

// OpenOptions are the options of Open. The zero value opens the config's own devices.
type OpenOptions struct {
	// Devices are shared with other runs; nil: the model opens those of its config. Use names
	// those of them that the model may use, in any order; nil: all.
	Devices *session.Pool
	Use     []device.ID
	// Model is a model of the program's own, for a config with `model: {preset: given}`: the
	// one that the run was opened with.
	Model models.Layer
	// Text plans memory for Generate: a percentage of memory is of what that takes. Eval and
	// Predict may then need more.
	Text bool
	// With are columns of a table, by name or number, whose texts each answer of Predict has beside
	// it, such as an identifier: Prediction.Row.
	With []string
	// Stored is how the matrices of dense layers and projections and the tables of tokens lie in memory: "float32", or
	// as adapt.base says, "bf16" or "int8" in half or 27% of the bytes, rounded once as they are loaded. All else is
	// float32. "": as the run has them. A model without such weights is refused with errs.ErrOptions, and so is a run with
	// an adapter whose adapt.base is another.
	Stored string
	// Faults make operations of the devices go wrong, for tests and drills; they count
	// operations from the first Eval or Predict on. On shared Devices they are errs.ErrOptions:
	// give them to OpenDevices.
	Faults []fault.Fault
}

// Open finds the checkpoint that is meant, opens the devices and plans. The config's data is read
// once it is needed. The caller closes the model.
func Open(ctx context.Context, c *configs.Config, w rundir.Weights, o OpenOptions) (*Model, error) {
	c, err := specs.Check(c, o.Model)
	if err != nil {
		return nil, err
	}
	shared, err := session.ShareOf(o.Devices, o.Use)
	if err != nil {
		return nil, err
	}
	if err := o.check(c); err != nil {
		return nil, err
	}
	w.Dir = osfile.Resolve(w.Dir)
	t := &Model{config: c, weights: w, with: o.With, speech: o.Text, warnings: slices.Clone(c.Notes)}
	if err := t.open(ctx, shared, o); err != nil {
		return nil, errors.Join(err, t.release())
	}
	return t, nil
}

// check refuses faults of shared devices, and a record of what only training does.
func (o OpenOptions) check(c *configs.Config) error {
	if o.Devices != nil && len(o.Faults) > 0 {
		return fmt.Errorf("%w: the devices are shared, so faults cannot be injected for one model: give them to OpenDevices", errs.ErrOptions)
	}
	const key = "devices.op_by_op"
	if p := c.Where(key); c.Devices.Runs(configs.OpByOpTrace) && p != (configs.Pos{}) && p.Line == 0 { // a run's config may have it, from training
		return configs.At(p, fmt.Errorf("%w: %s: a trace is recorded only while training; give log instead of trace", errs.ErrOptions, key))
	}
	return nil
}

// open finds the checkpoint, and opens the session.
func (t *Model) open(ctx context.Context, shared *session.Share, o OpenOptions) error {
	info, err := t.find(ctx)
	if err != nil {
		return err
	}
	spec := specs.Model(t.config, info, o.Model)
	if t.found != nil {
		m, err := session.Lineage(t.config, info, &spec)
		if err == nil {
			err = m.Suits(&t.found.Snapshot.Manifest)
		}
		if err != nil {
			return err
		}
	}
	if err := specs.Stored(&spec, t.config, o.Stored); err != nil {
		return err
	}
	return t.openOn(ctx, info, spec, shared, o)
}

// openOn opens the session of a model.
func (t *Model) openOn(ctx context.Context, info *datasets.Info, spec models.Spec, shared *session.Share, o OpenOptions) (err error) {
	t.session, err = session.Open(session.Options{
		Config: t.config, Info: info, Spec: spec, Sizes: session.NewSizes(t.config, t.config.Train.Batch), Shared: shared,
	}, func(s *session.Session) error { return t.plan(ctx, s) })
	if err != nil {
		return err
	}
	if t.faulty, err = fault.Wrap(t.session.Devices, o.Faults); err != nil {
		return errors.Join(err, t.session.Close())
	}
	t.session = t.session.On(t.faulty)
	return nil
}

// find reads the description of the data that the model was trained on, and
// which checkpoint is meant.
func (t *Model) find(ctx context.Context) (*datasets.Info, error) {
	w := t.weights
	f, err := rundir.Find(ctx, w)
	if w.Init != "" && errors.Is(err, checkpoint.ErrNotFound) {
		t.used = checkpoint.Used{File: w.Init}
		if t.data, err = specs.OpenData(ctx, t.config, specs.DataOptions{With: t.with}); err != nil {
			return nil, err
		}
		return &t.data.Info, nil
	}
	if err != nil {
		return nil, err
	}
	t.found, t.used = f, w.Used(f)
	if t.frozen, err = besideOf(f); err != nil {
		return nil, err
	}
	if t.like, err = dataOf(f, t.config); err != nil {
		return nil, err
	}
	if w.Init != "" {
		t.frozen = ""
		return t.like, t.release()
	}
	return t.like, nil
}

// dataOf is a checkpoint's description of the data that its model was trained on.
func dataOf(f *rundir.Found, c *configs.Config) (*datasets.Info, error) {
	st, err := runstate.Of(&f.Snapshot.Manifest)
	if err != nil {
		return nil, err
	}
	if restore.Untrained(&f.Snapshot.Manifest) { // its windows may have any length
		st.Data = restore.ImportedInfo(st.Data.Tokenizer, st.Data.Chat, c.Data.Context)
	}
	if st.Data.Tokenizer != nil {
		if st.Data.Chat, err = chatOf(f, c, &st.Data); err != nil {
			return nil, err
		}
	}
	return &st.Data, nil
}

// chatOf is how a checkpoint's model makes text of conversations: by the config's template, where training had another.
func chatOf(f *rundir.Found, c *configs.Config, info *datasets.Info) (*chat.Format, error) {
	then, err := configs.Parse("config", f.Snapshot.Manifest.Config, configs.Overlay{})
	if err != nil {
		return info.Chat, nil // it is told where it matters
	}
	if c.Data.ChatTemplate == "" && then.Data.ChatTemplate == "" {
		return info.Chat, nil
	}
	known, same := restore.ChatOf(c, then, info)
	format, err := specs.Chat(c, known)
	if err != nil && same { // an earlier version's: the template need not be there any more
		return known, nil
	}
	return format, err
}

// plan cuts the model. Where there is no room for a microbatch of training, it
// reads the data, which may have fewer samples than that.
func (t *Model) plan(ctx context.Context, s *session.Session) error {
	refused := t.planned(ctx, s)
	if !errors.Is(refused, partition.ErrMemory) || t.speech || t.data != nil {
		return refused
	}
	if err := t.read(ctx); err != nil || t.data.Train.Len() >= s.Sizes.Microbatch {
		return refused
	}
	s.Sizes.Microbatch = t.data.Train.Len()
	return t.planned(ctx, s)
}

// planned plans the model's evaluation with the session's microbatch.
func (t *Model) planned(ctx context.Context, s *session.Session) error {
	g, err := t.graph(ctx, s)
	if err != nil {
		return err
	}
	if s.Spec.Frozen.Stored() && !slices.ContainsFunc(g.Vars, func(v *graph.Value) bool { return v.Meta.DType.Stored() }) {
		return fmt.Errorf("%w: no weights of this model can be stored in bf16 or int8: those of dense layers, projections and embeddings can, and it has none; use them as float32", errs.ErrOptions)
	}
	s.Plan, s.Groups, err = s.Planner.Answers(ctx, g, func() (*graph.Graph, error) { return t.step(ctx, s) })
	return err
}

// step is the graph of a training step, for the names of its ops. It has the first adapter.
func (t *Model) step(ctx context.Context, s *session.Session) (*graph.Graph, error) {
	spec := s.Spec
	if len(t.adapters) > 0 {
		spec = t.adapters[0].spec
	}
	z := s.Sizes
	return models.Train(spec, specs.Optimizer(s.Config, z.Total), models.Size{Microbatch: z.Microbatch, Microbatches: z.Microbatches, Batch: z.Batch, Ring: 1, Stop: stop.Of(ctx)})
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
	for _, a := range t.adapters {
		err = errors.Join(err, a.close())
	}
	return err
}

// loaded releases what the weights were read from, unless devices read them
// again and again. Those of adapters stay in host memory then.
func (t *Model) loaded() (err error) {
	if !t.session.Plan.AnyTight() {
		return t.release()
	}
	for _, a := range t.adapters {
		err = errors.Join(err, a.close())
	}
	return err
}

// Notes say how evaluation is other than its user may expect: what percentages of
// memory became, less memory than a microbatch would take, pins to devices that there are not, and a
// model that was trained on one batch.
func (t *Model) Notes() []string {
	notes := slices.Concat(t.session.MemoryNotes(), t.session.Planner.PinsGaveWay())
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
// errs.ErrInUse while another call is under way.
func (t *Model) Close() error {
	err := t.session.Close()
	if errors.Is(err, errs.ErrInUse) {
		return err
	}
	if t.goneOn {
		err = executor.Unrelated(err) // the service has told
	}
	return errors.Join(t.release(), err)
}
