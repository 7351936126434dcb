package exchange

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/onnx"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
)

// ExportONNX writes the model of a run's checkpoint as an ONNX file, with what was fitted to a
// table inside: it takes raw rows. The file appears at path whole or not at all, in the place of
// one that is there. A model with an op that has no form in ONNX is refused: onnx.ErrOp. w.Init is
// not for this.
func ExportONNX(ctx context.Context, w rundir.Weights, path string) (*Exported, error) {
	return export(ctx, w, whole(ctx, func(x *exporting) error {
		m, err := x.onnx(ctx)
		if err != nil {
			return err
		}
		if err := osfile.Replace(path, func(f *os.File) error { return onnx.Write(f, m) }); err != nil {
			return err
		}
		return osfile.SyncDir(filepath.Dir(path))
	}))
}

// onnx is the model.
func (x *exporting) onnx(ctx context.Context) (*onnx.Model, error) {
	if x.config.Model.Preset == configs.ModelGiven {
		return nil, fmt.Errorf("%w: the layers of %s are a program's own, given by its code; write its weights alone, as safetensors", errs.ErrOptions, x.from)
	}
	m := &x.found.Snapshot.Manifest
	now := restore.Model{Config: x.then, Data: x.state.Data.Fingerprint}
	if err := now.Suits(m); err != nil {
		return nil, err
	}
	o := &onnxModel{exporting: x, info: &x.state.Data, ctx: ctx}
	o.spec = specs.Model(x.config, o.info, nil)
	if o.isText() && o.spec.Layers.BothEnds() == nil { // then padding, which is at the end, changes no answer
		o.spec.Lengths = false
	}
	longer := o.isText() && !o.spec.Lengths
	err := o.build(longer)
	if longer && errors.Is(err, onnx.ErrOp) { // its number of positions may be fixed
		err = o.build(false)
	}
	if err != nil {
		return nil, err
	}
	meta := append([]onnx.Property{
		{Key: "berth.step", Value: strconv.Itoa(m.Step)}, {Key: "berth.epoch", Value: strconv.Itoa(m.Epoch)},
	}, o.metadata...)
	return &onnx.Model{Producer: "berth", Metadata: meta, Graph: o.b.Graph()}, nil
}

// onnxModel is a model that is put together.
type onnxModel struct {
	*exporting
	ctx      context.Context
	info     *datasets.Info
	spec     models.Spec
	b        *onnx.Builder
	metadata []onnx.Property
}

// isText reports whether the model continues texts: its answers are the logits of each position.
func (o *onnxModel) isText() bool {
	return o.info.Tokenizer != nil && o.spec.Target.DType == shape.Int32 && o.spec.Target.Shape.Rank() == 1
}

// build puts the model together. longer says that a text has any number of tokens.
func (o *onnxModel) build(longer bool) error {
	o.b, o.metadata = onnx.NewBuilder(o.config.Name), nil
	g, err := o.graphs(longer)
	if err != nil {
		return err
	}
	source := onnx.Source{Inputs: map[string]string{}, Read: func(v *graph.Value, dst []byte) error {
		if o.ctx.Err() != nil {
			return context.Cause(o.ctx)
		}
		if o.merged != nil {
			return o.merged.Read(v.Name, 0, dst)
		}
		return initial.FromSnapshot(o.found.Snapshot, nil)(v, dst)
	}}
	if err := o.inputs(&source, longer); err != nil {
		return err
	}
	out, dims, err := onnx.Append(o.b, g, source)
	if err != nil {
		return err
	}
	return o.outputs(out, dims)
}

// graphs are the model's graphs, in the sizes that tell what depends on samples.
func (o *onnxModel) graphs(longer bool) (g onnx.Graphs, err error) {
	build := func(samples, positions int) *graph.Graph {
		s := o.spec
		if positions > 0 {
			s.Input.Shape, s.Target.Shape = shape.Of(positions), shape.Of(positions)
		}
		one, e := models.Predict(s, models.Size{Microbatch: samples, Stop: stop.Of(o.ctx)})
		if err = cmp.Or(err, e); err == nil && o.isText() {
			one = logits(one)
		}
		return one
	}
	few := 0
	if longer {
		few = onnx.FewPositions
		g.Longer = build(onnx.Few, onnx.LongerPositions)
	}
	g.Few, g.More = build(onnx.Few, few), build(onnx.More, few)
	return g, err
}

// logits is a graph whose output is what its softmax is taken of.
func logits(g *graph.Graph) *graph.Graph {
	of := *g
	if n := g.Outputs[0].Node; n != nil && n.Op == graph.Op(ops.Softmax{}) {
		of.Outputs = slices.Clone(n.In)
	}
	return &of
}

// inputs declares the inputs of the model, and turns them into those of the graph.
func (o *onnxModel) inputs(s *onnx.Source, longer bool) error {
	if rows := o.info.Row(); rows != nil && (o.info.Columns != nil || rows.Header) {
		features, first, err := o.rows(rows)
		s.Samples, s.Inputs[models.InputName] = first, features
		return err
	}
	dims := []onnx.Dim{{Name: onnx.Batch}}
	for _, d := range o.spec.Input.Shape {
		dims = append(dims, onnx.Dim{Size: d})
	}
	if longer {
		dims[1] = onnx.Dim{Name: onnx.Positions}
	}
	if o.spec.Input.DType == shape.Int32 {
		s.Samples = o.b.Input("ids", onnx.Int64, dims...)
		s.Inputs[models.InputName] = o.b.Cast(s.Samples, onnx.Int32)
	} else {
		s.Samples = o.b.Input("input", onnx.Float32, dims...)
		s.Inputs[models.InputName] = o.scaled(s.Samples)
	}
	if o.spec.Lengths {
		s.Inputs[models.LengthName] = o.b.Cast(o.b.Input("length", onnx.Int64, dims[0]), onnx.Int32)
	}
	return o.names("berth.features", o.info.Features)
}

// outputs declares the outputs of the model: as predict gives them.
func (o *onnxModel) outputs(out string, dims []onnx.Dim) error {
	switch kind := o.spec.Answers(); {
	case kind == metrics.Numbers:
		o.b.Output("prediction", o.unscaled(out), onnx.Float32, dims...)
	case o.isText():
		o.b.Output("logits", out, onnx.Float32, dims...)
	case kind == metrics.Bits:
		o.b.Output("probabilities", out, onnx.Float32, dims...)
	default:
		o.classes(out, dims)
	}
	if err := o.names("berth.classes", o.info.ClassNames); err != nil {
		return err
	}
	return o.names("berth.labels", o.info.TargetNames)
}

// classes declares the probabilities of classes, and the likeliest class: by its name, if it
// has one.
func (o *onnxModel) classes(out string, dims []onnx.Dim) {
	axis := int64(len(dims) - 1)
	best := o.b.Node("ArgMax", []onnx.Attr{{Name: "axis", Value: axis}, {Name: "keepdims", Value: int64(0)}}, out)
	if o.info.ClassNames == nil {
		o.b.Output("class", best, onnx.Int64, dims[:axis]...)
	} else {
		name := o.b.Node("Gather", nil, o.b.Strings(o.info.ClassNames...), best)
		o.b.Output("label", name, onnx.String, dims[:axis]...)
	}
	o.b.Output("probabilities", out, onnx.Float32, dims...)
}

// scaled is the features, standardized as in training.
func (o *onnxModel) scaled(x string) string {
	s := o.info.Scaling
	if s == nil {
		return x
	}
	n := []int{len(s.Mean)}
	y := o.b.Node("Sub", nil, o.b.Cast(x, onnx.Float64), o.b.Doubles(n, s.Mean...))
	return o.b.Cast(o.b.Node("Div", nil, y, o.b.Doubles(n, s.Std...)), onnx.Float32)
}

// unscaled is answers in the unit of the label.
func (o *onnxModel) unscaled(y string) string {
	s := o.info.TargetScaling
	if s == nil {
		return y
	}
	n := []int{len(s.Mean)}
	x := o.b.Node("Mul", nil, o.b.Cast(y, onnx.Float64), o.b.Doubles(n, s.Std...))
	return o.b.Cast(o.b.Node("Add", nil, x, o.b.Doubles(n, s.Mean...)), onnx.Float32)
}

// names adds names to the metadata, as a JSON list.
func (o *onnxModel) names(key string, names []string) error {
	if names == nil {
		return nil
	}
	text, err := json.Marshal(names)
	o.metadata = append(o.metadata, onnx.Property{Key: key, Value: string(text)})
	return err
}
