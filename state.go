package berth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/residency"
)

// The causes of errors about run folders.
var (
	ErrHasCheckpoint = errors.New("the run folder holds a checkpoint")
	ErrNoCheckpoint  = errors.New("no checkpoint")
	ErrChanged       = errors.New("the run has changed since the checkpoint")
)

// Files of a run folder.
const (
	configFile     = "config.yaml"
	metricsName    = "metrics.jsonl"
	checkpointName = "checkpoints.db"
	reportName     = "report.json"
)

// progress is where a run stands: with the variables on the devices, all the
// state there is.
type progress struct {
	Step         int  // steps taken
	Epoch, Index int  // data cursor
	Saved        int  `json:"-"` // step of the newest checkpoint
	Logged       int  // newest step whose loss was logged
	Stopped      bool // early stopping ended the run
	Best         checkpoint.Best
	Bad          int // epochs since the watched metric last improved
	Watched      *float64
	Last         Epoch // the newest epoch that ended
}

func (p *progress) cursor() datasets.Cursor { return datasets.Cursor{Epoch: p.Epoch, Index: p.Index} }

func (p *progress) advance(b datasets.Batch) {
	p.Step++
	p.Epoch, p.Index = b.Next.Epoch, b.Next.Index
}

// CheckpointPath is where a run folder keeps its checkpoints.
func CheckpointPath(dir string) string { return filepath.Join(dir, checkpointName) }

// openDir makes the run folder and opens its checkpoints.
func (t *trainer) openDir() error {
	if t.opt.Resume && t.opt.Fresh {
		return errors.New("resume and fresh exclude each other")
	}
	if err := os.MkdirAll(t.opt.Dir, 0o755); err != nil {
		return err
	}
	var err error
	t.db, err = checkpoint.Open(CheckpointPath(t.opt.Dir), checkpoint.Options{})
	if t.opt.Fresh && (errors.Is(err, checkpoint.ErrDamaged) || errors.Is(err, checkpoint.ErrFormat)) {
		return t.forget()
	}
	if err != nil {
		return err
	}
	list, _, err := t.db.List()
	switch {
	case err != nil:
		return err
	case len(list) > 0 && !t.opt.Resume && !t.opt.Fresh:
		return fmt.Errorf("%w: %s: use --resume to continue it, or --fresh to begin anew and delete it", ErrHasCheckpoint, t.opt.Dir)
	case t.opt.Fresh:
		return t.forget()
	}
	return nil
}

// forget empties the run folder's checkpoints and metrics.
func (t *trainer) forget() error {
	if t.db != nil {
		if err := t.db.Close(); err != nil {
			return err
		}
		t.db = nil
	}
	for _, name := range []string{checkpointName, metricsName, reportName} {
		if err := os.Remove(filepath.Join(t.opt.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var err error
	t.db, err = checkpoint.Open(CheckpointPath(t.opt.Dir), checkpoint.Options{})
	return err
}

// restore gives every variable its first contents: from the newest whole
// checkpoint, or from the initialisation.
func (t *trainer) restore(ctx context.Context) error {
	var snap *checkpoint.Snapshot
	if t.opt.Resume {
		var err error
		if snap, err = t.newest(ctx); err != nil {
			return err
		}
	}
	if snap != nil {
		if err := t.adopt(snap); err != nil {
			return err
		}
	}
	if err := t.fill(snap); err != nil {
		return err
	}
	return t.openFiles()
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
	prints, err := t.fingerprints()
	if err != nil {
		return err
	}
	for name, now := range prints {
		if then, ok := m.Fingerprints[name]; ok && then != now {
			return fmt.Errorf("%w: its %s is not what checkpoint %d was made with (%s then, %s now): restore the config, or use --fresh",
				ErrChanged, name, m.ID, short(then), short(now))
		}
	}
	if err := json.Unmarshal(m.Extra, &t.at); err != nil {
		return fmt.Errorf("checkpoint %d: state of the run: %w", m.ID, err)
	}
	t.at.Step, t.at.Epoch, t.at.Index, t.at.Saved = m.Step, m.Epoch, m.Index, m.Step
	t.opt.Observer.note(fmt.Sprintf("resuming at step %d of %d (epoch %d) from %s", m.Step, t.sizes.total, m.Epoch+1, t.db.Path()))
	return nil
}

func short(s string) string { return s[:min(12, len(s))] }

// fingerprints tell whether a resumed run is the same run.
func (t *trainer) fingerprints() (map[string]string, error) {
	text, err := t.Config.Identity()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return map[string]string{"config": hex.EncodeToString(sum[:]), "data": t.Data.Info.Fingerprint}, nil
}

// fill hands the variables' contents to residency; they are copied to their
// devices when first needed.
func (t *trainer) fill(snap *checkpoint.Snapshot) error {
	if snap != nil {
		return t.Run.fillVars(t.prog, snapshotContents(snap))
	}
	c, err := t.Run.initial(t.opt.Init)
	if err != nil {
		return err
	}
	return errors.Join(t.Run.fillVars(t.prog, c.read), c.close())
}

// openFiles writes the resolved config and opens the metrics.
func (t *trainer) openFiles() error {
	text, err := t.Config.YAML()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.opt.Dir, configFile), text, 0o644); err != nil {
		return err
	}
	t.metrics, t.losses, err = openMetrics(filepath.Join(t.opt.Dir, metricsName), t.at.Step)
	return err
}

// save takes a checkpoint of where the run stands. All queued work must be
// settled.
func (t *trainer) save(ctx context.Context) error {
	start := time.Now()
	src, err := t.snapshot(ctx)
	if err != nil {
		return fmt.Errorf("checkpoint at step %d: %w", t.at.Step, err)
	}
	extra, err := json.Marshal(&t.at)
	if err != nil {
		return err
	}
	text, err := t.Config.YAML()
	if err != nil {
		return err
	}
	prints, err := t.fingerprints()
	if err != nil {
		return err
	}
	m := checkpoint.Manifest{
		Step: t.at.Step, Epoch: t.at.Epoch, Index: t.at.Index, Fingerprints: prints,
		Metrics: t.metricsNow(), Best: t.at.Best, Extra: extra, Config: text,
	}
	id, err := t.db.Save(ctx, m, src)
	if err != nil {
		return fmt.Errorf("checkpoint at step %d: %w", t.at.Step, err)
	}
	t.at.Saved = t.at.Step
	k := t.Config.Checkpoint.Keep
	if _, err := t.db.Prune(checkpoint.Keep{Last: k.Last, Best: k.Best}); err != nil {
		return err
	}
	t.opt.Observer.saved(Saved{Step: t.at.Step, ID: id, Bytes: src.bytes, Time: time.Since(start)})
	return nil
}

// metricsNow are the metrics of the weights as they are: those of the epoch
// that has just ended, or none.
func (t *trainer) metricsNow() map[string]float64 {
	if t.at.Last.Step != t.at.Step {
		return nil
	}
	return t.at.Last.metrics()
}

// snapshot pulls every variable back.
func (t *trainer) snapshot(ctx context.Context) (*hostSource, error) {
	s := &hostSource{m: t.rt.Residency, tensors: map[string]*residency.Tensor{}}
	var all []*residency.Tensor
	for _, v := range t.Plan.Graph.Vars {
		x := t.prog.Var(v.Name)
		s.tensors[v.Name] = x
		s.list = append(s.list, checkpoint.Tensor{Name: v.Name, Meta: v.Meta, Role: v.Role.String()})
		s.bytes += v.Meta.Bytes()
		all = append(all, x)
	}
	return s, t.rt.Residency.PullBack(ctx, residency.Checkpoint, all...)
}

// hostSource is a checkpoint's source: variables that were pulled back.
type hostSource struct {
	m       *residency.Manager
	tensors map[string]*residency.Tensor
	list    []checkpoint.Tensor
	bytes   int64
}

func (s *hostSource) Tensors() []checkpoint.Tensor { return s.list }

func (s *hostSource) Read(name string, off int64, dst []byte) error {
	return s.m.View(s.tensors[name], func(b []byte) error {
		copy(dst, b[off:])
		return nil
	})
}

// saved reports whether a variable's role is exported as part of the model.
func exported(v *graph.Value) bool { return v.Role == graph.Parameter || v.Role == graph.Statistic }
