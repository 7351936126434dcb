package trained

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/planning"
	"github.com/berth-ml/berth/residency"
)

// Adapter is a run with an adapter of low rank (adapt.lora), to be served beside others of one base.
type Adapter struct {
	Name    string          // by which it is asked for
	Config  *configs.Config // of the run
	Weights rundir.Weights  // a checkpoint of the run; Init is not for this
	Kept    *KeptAdapter    // the weights of a service, in place of a checkpoint: see [Service.Keep]; nil: there are none
}

// KeptAdapter is an adapter of a service, with its weights in host memory.
type KeptAdapter struct {
	of       adapted
	contents map[string][]byte // of the variables that are not the base's, by name
}

// Keep copies the weights of an adapter out, to be served again without its checkpoint. A name that
// there is not is refused with errs.ErrOptions.
func (s *Service) Keep(ctx context.Context, name string) (*KeptAdapter, error) {
	for i, a := range s.trained.adapters {
		if a.Name != name {
			continue
		}
		contents, err := s.answers.Adapter(i).Weights(ctx, func(v *graph.Value) bool { return !v.Tagged(graph.BaseTag) })
		if err != nil {
			return nil, fmt.Errorf("adapter %s: %w", name, err)
		}
		k := &KeptAdapter{*a, contents}
		k.of.found = nil
		return k, nil
	}
	_, err := s.Adapter(name)
	return nil, err
}

// opened is the adapter again.
func (k *KeptAdapter) opened(x Adapter) *adapted {
	a := k.of
	a.Name, a.Kept = x.Name, x.Kept
	return &a
}

// read fills dst with a variable's contents, as [initial.Contents] does.
func (k *KeptAdapter) read(v *graph.Value, dst []byte) error {
	whole := k.contents[v.Whole().Name]
	if int64(len(whole)) < v.Offset()+int64(len(dst)) {
		return fmt.Errorf("BUG: %v has %d bytes in the weights that were kept", v, len(whole))
	}
	copy(dst, whole[v.Offset():])
	return nil
}

// adapted is an adapter of an open model.
type adapted struct {
	Adapter
	info  *datasets.Info
	spec  models.Spec
	base  *runstate.Base
	used  checkpoint.Used
	bytes int64 // of its weights

	frozen map[string]bool // names of the weights beside which it was trained

	found *rundir.Found // the checkpoint, until its weights are loaded
	fixed bool          // a device of the service that is being opened has its weights
}

// OpenAdapters opens the base that adapters were trained beside. The model's own answers are the base's,
// to samples like the first adapter's; [Model.Serve] answers with each adapter, too. Ranks, scalings, targets and data of
// the adapters may differ. Adapters of different bases are refused with errs.ErrOptions. The
// devices are those of the first one's config, unless o has others. The caller closes the model.
func OpenAdapters(ctx context.Context, list []Adapter, o OpenOptions) (*Model, error) {
	if err := checkAdapters(list); err != nil {
		return nil, err
	}
	shared, err := session.ShareOf(o.Devices, o.Use)
	if err != nil {
		return nil, err
	}
	t := &Model{with: o.With, speech: o.Text}
	if err := t.openAdapters(ctx, list, shared, o); err != nil {
		return nil, errors.Join(err, t.release())
	}
	return t, nil
}

// checkAdapters refuses lists that no service can have.
func checkAdapters(list []Adapter) error {
	if len(list) == 0 {
		return fmt.Errorf("%w: there are no adapters: give one or more", errs.ErrOptions)
	}
	seen := map[string]string{}
	for _, a := range list {
		before, twice := seen[a.Name]
		switch {
		case a.Name == "":
			return fmt.Errorf("%w: the adapter of %s has no name: give it one, by which it is asked for", errs.ErrOptions, a.Weights.Dir)
		case !utf8.ValidString(a.Name), strings.ContainsFunc(a.Name, unicode.IsControl):
			return fmt.Errorf("%w: the name %q of the adapter of %s has a control character, or is no UTF-8: give it another, such as polite", errs.ErrOptions, a.Name, a.Weights.Dir)
		case twice:
			return fmt.Errorf("%w: the adapters of %s and %s are both named %q: give each a name of its own", errs.ErrOptions, before, a.Weights.Dir, a.Name)
		case a.Config == nil:
			return fmt.Errorf("%w: the adapter %s has no config: give the run's", errs.ErrOptions, a.Name)
		case a.Weights.Init != "":
			return fmt.Errorf("%w: the adapter %s is to have the weights of %s: an adapter has those of a checkpoint", errs.ErrOptions, a.Name, a.Weights.Init)
		}
		seen[a.Name] = a.Weights.Dir
	}
	return nil
}

// openAdapters finds the checkpoints, and opens the session of their base.
func (t *Model) openAdapters(ctx context.Context, list []Adapter, shared *session.Share, o OpenOptions) error {
	for _, x := range list {
		if x.Kept != nil {
			t.adapters = append(t.adapters, x.Kept.opened(x))
			continue
		}
		a := &adapted{Adapter: x}
		t.adapters = append(t.adapters, a)
		if err := a.open(ctx, o); err != nil {
			return fmt.Errorf("adapter %s: %w", a.Name, err)
		}
	}
	first := t.adapters[0]
	for _, a := range t.adapters[1:] {
		if err := a.suits(first); err != nil {
			return err
		}
	}
	base := *first.Config
	base.Adapt = configs.Adapt{}
	t.config, t.like, t.warnings = &base, first.info, slices.Clone(base.Notes)
	t.weights = rundir.Weights{Dir: first.Weights.Dir, Init: first.base.Init}
	t.used = checkpoint.Used{File: first.base.Init}
	if t.used.File == "" {
		t.used.File = "the seed"
	}
	return t.openOn(ctx, first.info, first.alone(), shared, o)
}

// open finds the adapter's checkpoint, and its base.
func (a *adapted) open(ctx context.Context, o OpenOptions) (err error) {
	if a.Config, err = specs.Check(a.Config, o.Model); err != nil {
		return err
	}
	if err := o.check(a.Config); err != nil {
		return err
	}
	a.Weights.Dir = osfile.Resolve(a.Weights.Dir)
	if err := a.find(ctx, a.Weights); err != nil {
		return err
	}
	if a.info, err = dataOf(a.found, a.Config); err != nil {
		return err
	}
	a.spec = specs.Model(a.Config, a.info, o.Model)
	if a.spec.LoRA == nil {
		return fmt.Errorf("%w: the model of %s has no adapter: name runs that were trained with adapt.lora", errs.ErrOptions, a.Weights.Dir)
	}
	if err := a.fits(); err != nil {
		return err
	}
	if err := specs.Stored(&a.spec, a.Config, o.Stored); err != nil {
		return err
	}
	g, err := models.Predict(a.spec, models.Size{Microbatch: 1, Stop: stop.Of(ctx)})
	if err != nil {
		return err
	}
	for _, v := range ownVars(g) {
		a.bytes += v.Meta.Bytes()
	}
	a.frozen = map[string]bool{}
	for _, v := range initial.BaseVars(g.Vars) {
		a.frozen[v.Name] = true
	}
	a.base, err = restore.BaseOf(&a.found.Snapshot.Manifest)
	return err
}

// find opens the checkpoint that is meant.
func (a *adapted) find(ctx context.Context, w rundir.Weights) error {
	f, err := rundir.Find(ctx, w)
	if err == nil {
		a.found, a.used = f, a.Weights.Used(f)
	}
	return err
}

// fits refuses a checkpoint of another model, or of other data.
func (a *adapted) fits() error {
	m, err := session.Lineage(a.Config, a.info, &a.spec)
	if err != nil {
		return err
	}
	return m.Suits(&a.found.Snapshot.Manifest)
}

// alone is the base's model.
func (a *adapted) alone() models.Spec {
	s := a.spec
	s.LoRA = nil
	return s
}

// suits refuses an adapter of another base than the first one's, or whose model computes another
// thing with it.
func (a *adapted) suits(first *adapted) error {
	if x, y := first.base.SHA256, a.base.SHA256; x != y {
		return fmt.Errorf("%w: the adapters were trained beside different weights: %s (%s) beside those with SHA-256 %s, and %s (%s) beside those with SHA-256 %s: serve adapters of one base together",
			errs.ErrOptions, first.Name, first.Weights.Dir, x, a.Name, a.Weights.Dir, y)
	}
	like := first.spec.Input
	if a.spec.Input.Elems() < like.Elems() {
		like = a.spec.Input // a longer one may be none of the model's
	}
	x, err := computes(first.alone(), like)
	if err != nil {
		return err
	}
	if y, err := computes(a.alone(), like); err != nil || x != y {
		return errors.Join(fmt.Errorf("%w: the adapters have the same base, but other models with it: the section model, or precision, of %s (%s) is not that of %s (%s): serve adapters of one model together",
			errs.ErrOptions, a.Name, a.Weights.Dir, first.Name, first.Weights.Dir), err)
	}
	return nil
}

// computes identifies what a model computes for a sample.
func computes(s models.Spec, sample shape.Meta) (string, error) {
	s.Input = sample
	g, err := models.Predict(s, models.Size{Microbatch: 1})
	if err != nil {
		return "", err
	}
	return graph.Signature(g), nil
}

// close lets others write to the adapter's checkpoint file.
func (a *adapted) close() error {
	f := a.found
	if f == nil {
		return nil
	}
	a.found = nil
	return f.Close()
}

// baseContents is the contents of a model that OpenAdapters has opened. Other weights than those
// that the adapters were trained beside are refused.
func (t *Model) baseContents(ctx context.Context) (c executor.Contents, err error) {
	if t.values == nil {
		first := t.adapters[0]
		g, err := models.Eval(first.spec, models.Size{Microbatch: 1, Stop: stop.Of(ctx)})
		if err != nil {
			return c, err
		}
		if t.values, err = initial.OpenBaseModel(ctx, first.base.Init, first.base.SHA256, t.config.Seed, g.Vars, t.session.Plan.Graph.Vars); err != nil {
			return c, err
		}
	}
	return session.ContentsOf(t.values), nil
}

// load copies the adapter's weights in, beside those of the base. Where a run that trains
// meanwhile deletes the checkpoint, another one that the weights mean takes its place. It stays open
// for the other devices of a service.
func (a *adapted) load(ctx context.Context, to answer.Loader) (err error) {
	keeps := func(v *graph.Value) bool { return v.Tagged(graph.BaseTag) }
	if a.Kept != nil {
		return to.InitFrom(ctx, executor.Contents{Write: a.Kept.read, Keeps: keeps})
	}
	if a.found == nil {
		if err := a.find(ctx, rundir.Weights{Dir: a.Weights.Dir, ID: a.used.ID}); err != nil {
			return err
		}
	}
	for range rounds {
		if err := a.fits(); err != nil {
			return err
		}
		err = to.InitFrom(ctx, executor.Contents{
			Write: initial.FromSnapshot(a.found.Snapshot, nil),
			Keeps: keeps,
		})
		switch {
		case err == nil:
			a.fixed = true
			return nil
		case a.Weights.ID != 0 || !errors.Is(err, checkpoint.ErrDeleted):
			return err
		case a.fixed:
			return fmt.Errorf("%w: %w", errHalf, err)
		}
		if err := errors.Join(a.close(), a.find(ctx, a.Weights)); err != nil {
			return err
		}
	}
	return err
}

// of is the model of an adapter on the session of its base.
func (a *adapted) of(base *session.Session) answer.Model {
	s, c := *base, *base.Config
	c.Data = a.Config.Data
	s.Spec, s.Info, s.Config = a.spec, a.info, &c
	m := s.Trained()
	m.Infer.Adapter = a.Name
	return m
}

// besides adds the memory of the adapters to that of the base's service. A device has the weights
// of all adapters at once, and computes with one of them.
func (t *Model) besides(ctx context.Context, texts int, o *residency.TenantOptions) error {
	s := t.session
	if o.Floors == nil {
		o.Floors, o.Peaks = s.MemoryOf(s.Plan, s.Groups)
	}
	all := make([]int64, len(s.Devices)) // bytes of the weights of all adapters
	for _, a := range t.adapters {
		plan, speech, err := t.plansOf(ctx, a, texts)
		if err != nil {
			return err
		}
		own := t.ownOn(plan)
		for d, n := range own {
			all[d] += n
		}
		cover := func(p *partition.Plan, on planning.Groups) {
			floors, peaks := s.MemoryOf(p, on)
			for d := range floors {
				o.Floors[d], o.Peaks[d] = max(o.Floors[d], floors[d]), max(o.Peaks[d], peaks[d]-own[d])
			}
			o.LargestBytes = max(o.LargestBytes, session.LargestOf(p.Graph))
		}
		cover(plan, s.Groups)
		for _, p := range speech {
			cover(p, planning.Groups{})
		}
	}
	for d, n := range all {
		o.Peaks[d] += n
	}
	return nil
}

// plansOf are the plans of an adapter's evaluation, and of so many texts; these are nil where it generates none.
func (t *Model) plansOf(ctx context.Context, a *adapted, texts int) (eval *partition.Plan, speech []*partition.Plan, err error) {
	s, m := t.session, a.of(t.session)
	g, err := models.Eval(m.Infer.Spec, models.Size{Microbatch: s.Sizes.Microbatch, Stop: stop.Of(ctx)})
	if err != nil {
		return nil, nil, err
	}
	if eval, err = partition.Derive(s.Plan, g, partition.DeriveOptions{For: partition.Answers, Stop: stop.Of(ctx)}); err != nil {
		return nil, nil, s.Placed(err)
	}
	if m.Speaks() == nil {
		size := m.Generator()
		size.Texts = texts
		if speech, err = infer.GeneratorPlans(m.Infer, size, stop.Of(ctx)); err != nil {
			speech = nil // the adapter predicts all the same; Generate says why it does not
		}
	}
	return eval, speech, nil
}

// ownOn are the bytes of weights that an adapter has beside the base's, for each device. plan is
// of the adapter.
func (t *Model) ownOn(plan *partition.Plan) []int64 {
	bytes := make([]int64, len(t.session.Devices))
	for _, v := range ownVars(plan.Graph) {
		for _, s := range plan.Stages {
			if !slices.Contains(s.Blocks, v.Layer.Block) {
				continue
			}
			for _, d := range t.session.Groups.Of(s.Device) {
				bytes[d] += v.Meta.Bytes()
			}
		}
	}
	return bytes
}

// ownVars are the variables of layers that an adapter's graph has beside the base's weights.
func ownVars(g *graph.Graph) (list []*graph.Value) {
	for _, v := range g.Vars {
		if !v.Tagged(graph.BaseTag) && v.Layer != nil {
			list = append(list, v)
		}
	}
	return list
}

// Part is weights of a service: those of the model itself, or of an adapter beside them.
type Part struct {
	Adapter string // its name; "": the model itself, which is the base of the adapters
	Used    checkpoint.Used
	Bytes   int64 // of these weights, in each copy of the base
}

// parts are the weights of a service, those of the model first.
func (t *Model) parts() []Part {
	list := []Part{{Used: t.used}}
	for _, v := range t.session.Plan.Graph.Vars {
		if v.Layer != nil {
			list[0].Bytes += v.Meta.Bytes()
		}
	}
	for _, a := range t.adapters {
		list = append(list, Part{a.Name, a.used, a.bytes})
	}
	return list
}
