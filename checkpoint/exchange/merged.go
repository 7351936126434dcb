package exchange

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
)

// merged is the weights of a model with an adapter as those of one without. It is a
// checkpoint.Source, valid until it is closed.
type merged struct {
	snap    *checkpoint.Snapshot
	lora    *models.LoRA
	values  *initial.Values // of the base
	base    initial.Contents
	vars    map[string]*graph.Value // of the adapted model
	tensors []checkpoint.Tensor
	name    string // of the weight in whole; "": none is
	whole   []byte
}

// merge opens the weights of a checkpoint, whose config c has an adapter, as those of the model that
// the adapter and its base are together. plain is that model's config.
func merge(ctx context.Context, s *checkpoint.Snapshot, c *configs.Config, st *runstate.State) (m *merged, plain *configs.Config, err error) {
	if c.Model.Preset == configs.ModelGiven {
		return nil, nil, fmt.Errorf("%w: an adapter is merged into the model of a config, and the layers of this one are a program's own: give --format peft, for the adapter alone", errs.ErrOptions)
	}
	spec := specs.Model(c, &st.Data, nil)
	g, err := models.Predict(spec, models.Size{Microbatch: 1, Stop: stop.Of(ctx)})
	if err != nil {
		return nil, nil, err
	}
	m = &merged{snap: s, lora: spec.LoRA, vars: map[string]*graph.Value{}}
	for _, v := range g.Vars {
		m.vars[v.Name] = v
		if !v.Tagged(graph.AdapterTag) {
			m.tensors = append(m.tensors, checkpoint.Tensor{Name: v.Name, Meta: mergedMeta(v), Role: v.Role.String()})
		}
	}
	if m.values, err = restore.OpenBase(ctx, &s.Manifest, c.Seed, g.Vars); err != nil {
		return nil, nil, err
	}
	if m.base, err = m.values.Held(ctx); err != nil {
		return nil, nil, errors.Join(err, m.close())
	}
	without := *c
	without.Adapt = configs.Adapt{}
	without.Optimizer.Freeze = nil // they are names of the adapter's parameters
	return m, &without, nil
}

// mergedMeta is a variable's metadata in the merged model, all of whose weights are float32.
func mergedMeta(v *graph.Value) shape.Meta {
	if v.Meta.DType.Stored() {
		return shape.F32(v.Meta.Shape...)
	}
	return v.Meta
}

// close closes the file of the base.
func (m *merged) close() error { return m.values.Close() }

// Tensors implements checkpoint.Source.
func (m *merged) Tensors() []checkpoint.Tensor { return m.tensors }

// Read implements checkpoint.Source. The weight that was read last stays in memory.
func (m *merged) Read(name string, off int64, dst []byte) error {
	if m.name != name {
		m.name = ""
		if err := m.read(name); err != nil {
			return err
		}
		m.name = name
	}
	copy(dst, m.whole[off:])
	return nil
}

// read makes whole the contents of a variable.
func (m *merged) read(name string) error {
	v := m.vars[name]
	m.whole = make([]byte, v.Meta.Bytes())
	if err := initial.FromSnapshot(m.snap, m.base)(v, m.whole); err != nil {
		return err
	}
	if v.Meta.DType.Stored() {
		stored := m.whole
		m.whole = make([]byte, mergedMeta(v).Bytes())
		ops.Widen(v.Meta, shape.View[float32](m.whole), stored)
	}
	product, weight := strings.CutSuffix(name, "weight")
	b := m.vars[product+models.LoRAOut]
	if !weight || b == nil {
		return nil
	}
	in, err := m.factor(product + models.LoRAIn)
	if err != nil {
		return err
	}
	out, err := m.factor(b.Name)
	if err != nil {
		return err
	}
	m.lora.Merge(shape.View[float32](m.whole), in, out, b.Tagged(models.InOutTag))
	return nil
}

// factor is a factor of an adapter.
func (m *merged) factor(name string) ([]float32, error) {
	v := m.vars[name]
	x := make([]byte, v.Meta.Bytes())
	return shape.View[float32](x), initial.FromSnapshot(m.snap, nil)(v, x)
}
