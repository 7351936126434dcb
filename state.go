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
)

// progress is where a run stands: with the variables on the devices, all the
// state there is.
type progress struct {
	Step         int // steps taken
	Epoch, Index int // data cursor
	Saved        int `json:"-"` // step of the newest checkpoint
	Logged       int `json:"-"` // newest step whose loss was logged: the metrics file knows
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

// newest is the newest whole checkpoint of the run folder. What had to be
// skipped is said.
func (t *trainer) newest(ctx context.Context) (*checkpoint.Snapshot, error) {
	snap, skipped, err := t.db.Latest(ctx)
	for _, s := range skipped {
		t.opt.Observer.note(fmt.Sprintf("skipped %v", s))
	}
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, fmt.Errorf("%w to resume from in %s: leave --resume out to begin the run", ErrNoCheckpoint, t.opt.Dir)
	}
	return snap, err
}

// adopt takes over a checkpoint's place in the run.
func (t *trainer) adopt(snap *checkpoint.Snapshot) error {
	m := snap.Manifest
	change := t.unchanged(&m)
	if change != nil && !(t.opt.AllowChanged && errors.Is(change, ErrChanged)) {
		return change
	}
	st, err := stateOf(&m)
	if err != nil {
		return err
	}
	t.at = st.Progress
	t.at.Step, t.at.Epoch, t.at.Index, t.at.Saved = m.Step, m.Epoch, m.Index, m.Step
	if change != nil {
		t.opt.Observer.note(fmt.Sprintf("going on although %v", change))
		t.realign(m.Fingerprints["data"])
	}
	text := fmt.Sprintf("resuming at step %d of %d (epoch %d) from %s", m.Step, t.sizes.total, m.Epoch+1, t.db.Path())
	if t.done() {
		text = fmt.Sprintf("the run in %s is complete: %d steps", t.opt.Dir, m.Step)
	}
	t.opt.Observer.note(text)
	return nil
}

// realign makes a place in a run with another config or other data one in this
// run: it goes on at the beginning of the next epoch where that place is no
// batch's beginning here, and ends after the epochs that this config has.
func (t *trainer) realign(data string) {
	z := &t.sizes
	if t.at.Index > 0 && (data != t.Data.Info.Fingerprint || t.at.Index%z.batch != 0 || t.at.Index >= z.samples) {
		t.at.Epoch, t.at.Index = t.at.Epoch+1, 0
		t.opt.Observer.note(fmt.Sprintf("the rest of epoch %d is left out, since its batches are others now", t.at.Epoch))
	}
	z.total = t.at.Step + max(0, t.Config.Train.Epochs-t.at.Epoch)*z.steps - t.at.Index/z.batch
}

// stateOf reads a manifest's state of the run.
func stateOf(m *checkpoint.Manifest) (st savedState, err error) {
	if err := json.Unmarshal(m.Extra, &st); err != nil {
		return st, fmt.Errorf("checkpoint %d: state of the run: %w", m.ID, err)
	}
	return st, nil
}

// unchanged refuses to go on with another config or other data than a
// checkpoint was made with, and says what changed.
func (r *Run) unchanged(m *checkpoint.Manifest) error {
	prints, err := r.fingerprints()
	if err != nil {
		return err
	}
	if then := m.Fingerprints["config"]; then != prints["config"] {
		return fmt.Errorf("%w: %s: restore the config, begin another run, or allow the change", ErrChanged, r.changes(m))
	}
	if then := m.Fingerprints["data"]; then != prints["data"] {
		return fmt.Errorf("%w: the data is not what checkpoint %d was trained on (fingerprint %s then, %s now): restore it, begin another run, or allow the change",
			ErrChanged, m.ID, short(then), short(prints["data"]))
	}
	return nil
}

// changes lists the keys whose values differ from those a checkpoint was made
// with.
func (r *Run) changes(m *checkpoint.Manifest) string {
	now, err := r.Config.YAML()
	if err != nil {
		return "its config is not what the checkpoint was made with"
	}
	if list := ConfigChanges(m.Config, now); len(list) > 0 {
		return strings.Join(list, "; ")
	}
	return "its config is not what the checkpoint was made with"
}

// ConfigChanges lists the keys of a run's identity whose values differ between
// two resolved configs. It is empty where one of them cannot be read.
func ConfigChanges(then, now []byte) []string {
	before, after := identityOf(then), identityOf(now)
	if before == nil || after == nil {
		return nil
	}
	var out []string
	for k, v := range after {
		if was, ok := before[k]; !ok || was != v {
			out = append(out, fmt.Sprintf("%s was %s, is %s", k, cmp.Or(was, "not set"), v))
		}
	}
	for k, was := range before {
		if _, ok := after[k]; !ok {
			out = append(out, fmt.Sprintf("%s was %s, is not set", k, was))
		}
	}
	slices.Sort(out)
	return out
}

// identityOf is the identity of a resolved config by key; nil if it cannot be
// read.
func identityOf(text []byte) map[string]string {
	c, err := configs.Parse("config", text, configs.Overlay{})
	if err != nil {
		return nil
	}
	id, err := c.Identity()
	if err != nil {
		return nil
	}
	keys := map[string]string{}
	var path []string // of the sections that a line is in
	var indents []int
	for line := range strings.Lines(string(id)) {
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		for len(indents) > 0 && indents[len(indents)-1] >= indent {
			path, indents = path[:len(path)-1], indents[:len(indents)-1]
		}
		k, v, _ := strings.Cut(strings.TrimSpace(text), ":")
		path, indents = append(path, k), append(indents, indent)
		if v != "" {
			keys[strings.Join(path, ".")] = strings.TrimSpace(v)
		}
	}
	return keys
}

func short(s string) string { return s[:min(12, len(s))] }

// fingerprints tell whether a resumed run is the same run.
func (r *Run) fingerprints() (map[string]string, error) {
	text, err := r.Config.Identity()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return map[string]string{"config": hex.EncodeToString(sum[:]), "data": r.Data.Info.Fingerprint}, nil
}

// fill copies the variables' first contents to their devices.
func (t *trainer) fill(ctx context.Context, snap *checkpoint.Snapshot) error {
	if snap != nil {
		return t.prog.Init(ctx, snapshotContents(snap))
	}
	c, err := t.Run.initial(t.opt.Init)
	if err != nil {
		return err
	}
	return errors.Join(t.prog.Init(ctx, c.read), c.close())
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
