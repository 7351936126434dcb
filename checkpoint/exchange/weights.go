package exchange

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
)

// The metadata of a file of weights that says what they are of.
const (
	fittedKey     = "berth.fitted"
	fittedVersion = 1 // a file with another one is refused
)

// fitted is, in JSON, what a file of weights says of their run.
type fitted struct {
	Version      int
	Config       string
	Fingerprints map[string]string
	Data         datasets.Info // with all that was fitted to the training part
}

// ErrFitted is the error of a file of weights that does not say what they are of, or not in a way
// that can be used.
var ErrFitted = errors.New("the file does not become a run")

// roles are those of the tensors that a file of weights has.
var roles = []string{graph.Parameter.String(), graph.Statistic.String()}

// ExportSafetensors writes the weights of a run's checkpoint as a safetensors file, with what was
// fitted to its data in the metadata: Import makes a run of it. The file appears at path whole or
// not at all, in the place of one that is there. w.Init is not for this.
func ExportSafetensors(ctx context.Context, w rundir.Weights, path string) (*Exported, error) {
	return export(ctx, w, func(x *exporting) error {
		return WriteSafetensors(ctx, x.found.Snapshot, path, false)
	})
}

// WriteSafetensors is ExportSafetensors of a checkpoint that is open; with all, the optimizer's
// state is written, too, and averages beside the weights, not in their place. A checkpoint that is of no run has nothing that
// was fitted. An adapter is merged into its base, and has no state of the optimizer there.
func WriteSafetensors(ctx context.Context, s *checkpoint.Snapshot, path string, all bool) (err error) {
	if !all {
		s = s.Averaged()
	}
	metadata, from := map[string]string{}, checkpoint.Source(s)
	if m := &s.Manifest; len(m.Extra) > 0 {
		st, err2 := runstate.Of(m)
		if err2 != nil {
			return err2
		}
		f := fitted{fittedVersion, string(m.Config), restore.Portable(m), st.Data}
		if st.Base != nil && all {
			return fmt.Errorf("%w: the optimizer's state is the adapter's, which is merged into the weights: leave --optimizer out", errs.ErrOptions)
		}
		if st.Base != nil {
			x, err2 := f.merge(ctx, s, &st)
			if err2 != nil {
				return err2
			}
			defer func() { err = errors.Join(err, x.close()) }()
			from = x
		}
		text, err2 := json.Marshal(f)
		if err2 != nil {
			return err2
		}
		metadata[fittedKey] = string(text)
	}
	return s.ExportFrom(ctx, from, path, metadata, func(t checkpoint.Tensor) string {
		if !all && !slices.Contains(roles, t.Role) {
			return ""
		}
		return t.Name
	})
}

// merge opens the weights of a checkpoint with an adapter as those of the model without, whose config
// f then has.
func (f *fitted) merge(ctx context.Context, s *checkpoint.Snapshot, st *runstate.State) (*merged, error) {
	m := &s.Manifest
	c, err := configs.Parse(fmt.Sprintf("the config of checkpoint %d", m.ID), m.Config, configs.Overlay{})
	if err != nil {
		return nil, err
	}
	x, plain, err := merge(ctx, s, c, st)
	if err != nil {
		return nil, err
	}
	text, err := plain.Kept()
	if err == nil {
		f.Config = string(text)
		f.Fingerprints, err = restore.PortableOf(m, plain)
	}
	if err != nil {
		return nil, errors.Join(err, x.close())
	}
	return x, nil
}

// readFitted reads what a file's metadata says of its run.
func readFitted(metadata map[string]string) (*fitted, error) {
	text, ok := metadata[fittedKey]
	if !ok {
		return nil, fmt.Errorf("%w: its metadata has no %s, which trainer export writes; to begin a run with its weights, use trainer train CONFIG --init FILE", ErrFitted, fittedKey)
	}
	var version struct{ Version int }
	if err := json.Unmarshal([]byte(text), &version); err != nil {
		return nil, fmt.Errorf("%w: %s in its metadata is damaged: %w", ErrFitted, fittedKey, err)
	}
	if version.Version != fittedVersion {
		return nil, fmt.Errorf("%w: %s in its metadata has version %d, and this program reads version %d: use the program that wrote it, or a newer one", ErrFitted, fittedKey, version.Version, fittedVersion)
	}
	f := &fitted{}
	err := json.Unmarshal([]byte(text), f)
	if err == nil {
		err = f.Data.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s in its metadata is damaged: %w", ErrFitted, fittedKey, err)
	}
	return f, nil
}

// importFile makes a run folder of a file that ExportSafetensors wrote.
func importFile(ctx context.Context, from, dir string, o ImportOptions) (_ *Imported, err error) {
	file, err := safetensors.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	f, err := readFitted(file.Metadata())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	c, err := configs.Parse("the config in "+from, []byte(f.Config), configs.Overlay{})
	if err == nil {
		c, err = imported(c, dir, o)
	}
	if err != nil {
		return nil, err
	}
	w := &fileWeights{ctx: ctx, file: file, progress: o.Progress}
	if err := w.open(c, &f.Data); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	m := checkpoint.Manifest{Fingerprints: f.Fingerprints}
	m.Config, err = c.Kept()
	text, e := json.Marshal(runstate.State{Data: f.Data})
	if m.Extra = text; cmp.Or(err, e) != nil {
		return nil, cmp.Or(err, e)
	}
	return &Imported{Config: c, Parameters: w.parameters}, fill(ctx, dir, m, nil, nil, w)
}

// fileWeights are the weights of a model, read from a file. It is a checkpoint.Source, valid
// until the file is closed.
type fileWeights struct {
	ctx        context.Context
	file       *safetensors.File
	progress   func(share float64) // nil for nobody
	tensors    []checkpoint.Tensor
	parameters int64
	read, all  int64 // bytes
}

// open checks that the file has the weights of a config's model and no others.
func (w *fileWeights) open(c *configs.Config, info *datasets.Info) error {
	if c.Model.Preset == configs.ModelGiven {
		return fmt.Errorf("%w: its layers are a program's own, given by its code: open that model there, with these weights as initial ones", ErrFitted)
	}
	g, err := models.Predict(specs.Model(c, info, nil), models.Size{Microbatch: 1, Stop: stop.Of(w.ctx)})
	if err != nil {
		return err
	}
	var wrong []string
	for _, v := range g.Vars {
		if t, err := w.file.Lookup(v.Name); err != nil {
			wrong = append(wrong, v.Name+" is missing")
		} else if !t.Shape.Equal(v.Meta.Shape) {
			wrong = append(wrong, fmt.Sprintf("%s is %v, the model has %v", v.Name, t.Shape, v.Meta.Shape))
		}
		w.tensors = append(w.tensors, checkpoint.Tensor{Name: v.Name, Meta: v.Meta, Role: v.Role.String()})
		if w.all += v.Meta.Bytes(); v.Role == graph.Parameter {
			w.parameters += int64(v.Meta.Elems())
		}
	}
	if wrong != nil {
		return fmt.Errorf("%w: its weights are not those of its config: %s", initial.ErrInit, strings.Join(wrong, "; "))
	}
	return nil
}

// Tensors implements checkpoint.Source.
func (w *fileWeights) Tensors() []checkpoint.Tensor { return w.tensors }

// Read implements checkpoint.Source.
func (w *fileWeights) Read(name string, off int64, dst []byte) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if err := w.file.ReadWeights(name, int(off/4), shape.View[float32](dst)); err != nil {
		return err
	}
	if w.read += int64(len(dst)); w.progress != nil {
		w.progress(float64(w.read) / float64(w.all))
	}
	return nil
}
