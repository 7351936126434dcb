package berth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
)

// progress is where a run stands: with the variables on the devices, all the
// state there is.
type progress struct {
	Step         int // steps taken
	Epoch, Index int // data cursor
	Saved        int `json:"-"` // step of the newest checkpoint
	Logged       int `json:"-"` // newest step whose loss was logged: the metrics file knows
	Began        int `json:"-"` // steps taken when this epoch began, had it always had today's batches
	Lost         int // the rings hold nothing of steps up to this one: they were others then
	Imported     int // the newest step whose weights were then replaced by a file's; 0: there is none
	Best         checkpoint.Best
	Watched      watched
	Last         Epoch // the newest epoch that ended
}

// watched is what early stopping knows.
type watched struct {
	Metric string
	Best   *float64
	Bad    int // epochs since it last improved
}

// savedState is what a checkpoint holds besides variables: where the run
// stands, and what is known of its data, so that predicting needs no other.
type savedState struct {
	Progress progress
	Data     datasets.Info
}

func (p *progress) cursor() datasets.Cursor { return datasets.Cursor{Epoch: p.Epoch, Index: p.Index} }

func (p *progress) advance(b datasets.Batch) {
	if b.At.Index == 0 {
		p.Began = p.Step
	}
	p.Step++
	p.Epoch, p.Index = b.Next.Epoch, b.Next.Index
}

// restore finds what the variables begin with, and where the run then stands:
// the newest whole checkpoint, or (nil) the initialisation.
func (t *trainer) restore(ctx context.Context) (*checkpoint.Snapshot, error) {
	if !t.opt.Resume {
		return nil, nil
	}
	snap, err := t.newest(ctx)
	if err != nil {
		return nil, err
	}
	return snap, t.adopt(snap)
}

// lastEpoch is the epoch of the last step.
func (p *progress) lastEpoch() int {
	if p.Index > 0 {
		return p.Epoch
	}
	return max(0, p.Epoch-1)
}

// newest is the newest whole checkpoint of the run folder. What had to be
// skipped is said.
func (t *trainer) newest(ctx context.Context) (*checkpoint.Snapshot, error) {
	snap, skipped, err := t.db.Latest(ctx)
	t.tellSkipped(skipped)
	if !errors.Is(err, checkpoint.ErrNotFound) {
		return snap, err
	}
	if len(skipped) == 0 {
		return nil, t.nothingToResume()
	}
	return nil, nothingWhole(t.opt.Dir, noneWhole(t.db.Path(), skipped))
}

// adopt takes over a checkpoint's place in the run.
func (t *trainer) adopt(snap *checkpoint.Snapshot) error {
	m := snap.Manifest
	what, err := t.changed(&m)
	if err != nil {
		return err
	}
	if what != "" && !t.opt.AllowChanged {
		return fmt.Errorf("%w: %s: restore it, begin another run, or give --allow-changed", ErrChanged, what)
	}
	st, err := stateOf(&m)
	if err != nil {
		return err
	}
	t.at = st.Progress
	t.at.Step, t.at.Epoch, t.at.Index, t.at.Saved = m.Step, m.Epoch, m.Index, m.Step
	if then, now := m.Fingerprints[numericsPrint], t.numerics(); then != "" && then != now {
		t.opt.Observer.note(fmt.Sprintf("checkpoint %d was computed with %s, and the run goes on with %s: its weights will differ in their last bits from those of a run all by one", m.ID, then, now))
	}
	if what != "" {
		t.opt.Observer.note("going on although " + what)
		t.realign(m.Fingerprints["data"])
		if !t.sameRings(snap) {
			t.at.Lost = m.Step
		}
	}
	z, done := &t.sizes, t.at.Index/t.sizes.batch // steps of this epoch
	t.at.Began = t.at.Step - done
	z.total = t.at.Step + max(0, t.Config.Train.Epochs-t.at.Epoch)*z.steps - done
	t.opt.Observer.note(t.standing())
	return nil
}

// standing says where a resumed run stands, and what is left of it.
func (t *trainer) standing() string {
	step, total := t.at.Step, t.sizes.total
	switch {
	case t.stoppedEarly():
		return fmt.Sprintf("the run in %s is complete: it stopped early, at step %d of %d", t.opt.Dir, step, total)
	case step >= total:
		return fmt.Sprintf("the run in %s is complete: %d steps", t.opt.Dir, step)
	case t.done():
		return fmt.Sprintf("nothing to do: the run in %s is at step %d of %d, and --max-steps %d asks for no more; leave it out to complete the run", t.opt.Dir, step, total, t.opt.MaxSteps)
	}
	return fmt.Sprintf("resuming at step %d of %d (epoch %d) from %s", step, total, t.at.Epoch+1, t.db.Path())
}

// realign makes a place in a run with another config or other data one in this
// run: it goes on at the beginning of the next epoch where that place is no
// batch's beginning here.
func (t *trainer) realign(data string) {
	z := &t.sizes
	if t.at.Index > 0 && (data != t.Data.Info.Fingerprint || t.at.Index%z.batch != 0 || t.at.Index >= z.samples) {
		t.at.Epoch, t.at.Index = t.at.Epoch+1, 0
		t.opt.Observer.note(fmt.Sprintf("the rest of epoch %d is left out, since its batches are others now", t.at.Epoch))
	}
}

// sameRings reports whether what a checkpoint's steps recorded is in the places
// that this run's steps have, and of as many samples.
func (t *trainer) sameRings(snap *checkpoint.Snapshot) bool {
	then, err := configs.Parse("config", snap.Manifest.Config, configs.Overlay{})
	ring, ok := snap.Tensor(models.LossRing)
	return err == nil && ok && then.Train.Batch == t.sizes.batch && ring.Meta.Bytes() == int64(4*t.sizes.steps)
}

// ImportWeights adds to db a checkpoint that is base with the parameters of a
// safetensors file in place of its own, and whatever else the file has for it
// (see [checkpoint.DB.Import]). A run goes on from it where base stood. What
// was measured of base's weights is left out: the new checkpoint has no metrics before
// an epoch ends, and early stopping counts from there.
func ImportWeights(ctx context.Context, db *checkpoint.DB, base *checkpoint.Snapshot, path, prefix string) (uint64, error) {
	st, err := stateOf(&base.Manifest)
	if err != nil {
		return 0, err
	}
	p := &st.Progress
	p.Last, p.Watched = Epoch{}, watched{}
	p.Lost, p.Imported = base.Manifest.Step, base.Manifest.Step
	as := *base
	if as.Manifest.Extra, err = json.Marshal(st); err != nil {
		return 0, err
	}
	return db.Import(ctx, &as, path, prefix, graph.Parameter.String())
}

// stateOf reads a manifest's state of the run.
func stateOf(m *checkpoint.Manifest) (st savedState, err error) {
	if err := json.Unmarshal(m.Extra, &st); err != nil {
		return st, fmt.Errorf("checkpoint %d: state of the run: %w", m.ID, err)
	}
	return st, nil
}

// changed says what of the run's config or data is not what a checkpoint was
// made with; "" where nothing is. The same data may lie under another path.
func (r *Run) changed(m *checkpoint.Manifest) (string, error) {
	prints, err := r.fingerprints()
	if err != nil {
		return "", err
	}
	sameData := m.Fingerprints["data"] == prints["data"]
	var list []string
	if m.Fingerprints["config"] != prints["config"] {
		if list, err = r.changes(m); err != nil {
			return "", err
		}
		if sameData {
			list = slices.DeleteFunc(list, func(line string) bool { return strings.HasPrefix(line, "data.path ") })
		}
	}
	if len(list) > 0 {
		list = []string{changesText(list)}
	}
	if !sameData {
		list = append(list, fmt.Sprintf("the data is not what checkpoint %d was trained on (fingerprint %s then, %s now)", m.ID, short(m.Fingerprints["data"]), short(prints["data"])))
	}
	return strings.Join(list, "; "), nil
}

// changes lists the keys whose values differ from those a checkpoint was made
// with.
func (r *Run) changes(m *checkpoint.Manifest) ([]string, error) {
	now, err := r.Config.YAML()
	if err != nil {
		return nil, err
	}
	if identityOf(m.Config) == nil {
		return []string{fmt.Sprintf("the config of checkpoint %d cannot be read", m.ID)}, nil
	}
	return ConfigChanges(m.Config, now), nil
}

// ConfigChanges lists the keys of a run's identity whose values differ between
// two resolved configs, in the order of the config. Of a layer that is of
// another type, that is all. It is empty where one of them cannot be read.
func ConfigChanges(then, now []byte) []string {
	before, after := identityOf(then), identityOf(now)
	if before == nil || after == nil {
		return nil
	}
	was, is := byKey(before), byKey(after)
	var out []string
	other := "\x00" // the layer that is of another type
	for _, s := range slices.Concat(after, before) {
		then, had := was[s.Key]
		now, has := is[s.Key]
		if then == now && had == has || strings.HasPrefix(s.Key, other) {
			continue
		}
		out = append(out, fmt.Sprintf("%s was %s, is %s", s.Key, cmp.Or(then, "not set"), cmp.Or(now, "not set")))
		if layer, ok := strings.CutSuffix(s.Key, "].type"); ok {
			other = layer + "]."
		}
	}
	return unique(out)
}

// unique leaves the first of equal lines.
func unique(lines []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(lines, func(line string) bool {
		again := seen[line]
		seen[line] = true
		return again
	})
}

// changesText words changes in one line, the first few of many.
func changesText(list []string) string {
	const most = 6
	if len(list) > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, "; ")
}

func byKey(settings []configs.Setting) map[string]string {
	out := make(map[string]string, len(settings))
	for _, s := range settings {
		out[s.Key] = s.Value
	}
	return out
}

// identityOf is the identity of a resolved config; nil if it cannot be read.
func identityOf(text []byte) []configs.Setting {
	c, err := configs.Parse("config", text, configs.Overlay{})
	if err != nil {
		return nil
	}
	id, err := c.Settings()
	if err != nil {
		return nil
	}
	return id
}

func short(s string) string { return s[:min(12, len(s))] }

// fingerprints tell whether a resumed run is the same run.
func (r *Run) fingerprints() (map[string]string, error) {
	text, err := r.Config.Identity()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return map[string]string{"config": hex.EncodeToString(sum[:]), "data": r.Data.Info.Fingerprint, numericsPrint: r.numerics()}, nil
}

// numericsPrint is the fingerprint whose change is said and no more.
const numericsPrint = "numerics"

// numerics is what the run's results depend on to the bit, beside its config
// and data: what the devices that have stages compute with.
func (r *Run) numerics() string {
	var all []string
	for _, s := range r.Plan.Stages {
		spec := r.devs[s.Device].Spec()
		all = append(all, strings.TrimSpace(spec.Kind+" "+spec.Numerics))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " and ")
}

// fill copies the variables' first contents to their devices.
func (t *trainer) fill(ctx context.Context, snap *checkpoint.Snapshot) error {
	if snap != nil {
		return t.prog.Init(ctx, snapshotContents(snap))
	}
	err := errors.Join(t.prog.Init(ctx, t.given.read), t.given.close())
	t.given = nil
	return err
}

// metricsNow are the metrics of the weights as they are: those of the epoch
// that has just ended, or none.
func (t *trainer) metricsNow() map[string]float64 {
	if t.at.Last.Step != t.at.Step {
		return nil
	}
	return t.at.Last.metrics()
}

// exported reports whether a variable is part of the model.
func exported(v *graph.Value) bool { return v.Role == graph.Parameter || v.Role == graph.Statistic }
