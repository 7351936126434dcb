package outside_test

import (
	"errors"
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
)

func init() {
	ops.Register(1, Swish{}, SwishGrad{}, Sign{}, Panics{}, Fails{})
	ops.Register(2, Roll{})
	models.RegisterLayer(models.LayerType[SwishKeys]{Name: "swish2", Version: 3, Doc: "x·sigmoid(beta·x).", Defaults: SwishKeys{Beta: 1}})
	models.RegisterLayer(models.LayerType[GatedKeys]{Name: "gated", Version: 1, Doc: "A gated unit.", Defaults: GatedKeys{Shift: 1}})
	models.RegisterLayer(models.LayerType[PanicsLayer]{Name: "panics", Version: 1})
	models.RegisterLayer(models.LayerType[Halved]{Name: "halved", Version: 1})
	models.RegisterLoss(models.LossType[SmoothKeys]{
		Name: "smoothed", Version: 1, Doc: "Cross entropy with smoothed labels.", Defaults: SmoothKeys{Eps: 0.1}, Classes: true,
		Loss: smoothed,
		Correct: func(b *models.Builder, _ SmoothKeys, output, target *graph.Value) *graph.Value {
			return b.One(ops.Correct{}, output, target)
		},
		Answer: func(b *models.Builder, _ SmoothKeys, output *graph.Value) *graph.Value {
			return ops.SoftmaxOf(b.Builder, output)
		},
	})
	models.RegisterLoss(models.LossType[CharbonnierKeys]{Name: "charbonnier", Version: 1, Defaults: CharbonnierKeys{Delta: 1}, Loss: charbonnier})
	models.RegisterLayer(models.LayerType[FailsKeys]{Name: "fails", Version: 1})
	metrics.Register(confidence)
	metrics.Register(targetMean)
	metrics.Register(targetVariance)
	metrics.Register(failing("fails_value", fixed, nil, func(*metrics.Collected) float64 { panic("no value") }))
	metrics.Register(failing("fails_check", fixed, checkOrPanic, func(*metrics.Collected) float64 { return 1 }))
	metrics.Register(failing("fails_build", unbuilt, nil, func(*metrics.Collected) float64 { return 1 }))
	optim.Register(optim.OptimizerType[SignumKeys]{
		Name: "signum", Version: 1, Doc: "Bernstein et al., 2018.", Defaults: SignumKeys{Beta: 0.9}, Update: signum,
	})
	optim.Register(optim.OptimizerType[struct{}]{Name: "odd", Version: 1, Doc: "Its states depend on few tensors each.", Update: odd})
	optim.Register(optim.OptimizerType[MishapKeys]{Name: "forgetful", Version: 1, Update: func(u *optim.Update, k MishapKeys, w, _ *graph.Value) *graph.Value {
		if k.Panics {
			panic("no update")
		}
		u.State("idle")
		return w
	}})
	models.RegisterLayer(models.LayerType[BuildPanics]{Name: "build_panics", Version: 1})
	ops.RegisterSchedule(ops.ScheduleType[MishapKeys]{Name: "broken", Version: 1, Rate: func(k MishapKeys, lr float64, step, steps int) float64 {
		if k.Panics && step == 2 {
			panic("no rate")
		}
		return lr * math.Sqrt(float64(steps-2-step))
	}})
	ops.RegisterSchedule(ops.ScheduleType[PolynomialKeys]{
		Name: "polynomial", Version: 1, Doc: "A power of the rest of the run.", Defaults: PolynomialKeys{Power: 2},
		Rate: func(k PolynomialKeys, lr float64, step, steps int) float64 {
			return lr * math.Pow(1-math.Min(1, float64(step)/float64(steps)), k.Power)
		},
	})
}

// MishapKeys are the keys of functions that go wrong.
type MishapKeys struct {
	Panics bool `yaml:"panics" doc:"whether the function panics"`
}

// SwishKeys are the keys of the layer swish2.
type SwishKeys struct {
	Beta float64 `yaml:"beta" min:"0" max:"10" doc:"steepness"`
}

// Check refuses a number, for a test.
func (k SwishKeys) Check() error {
	if k.Beta == 7 {
		return errors.New("beta may be anything but 7")
	}
	return nil
}

func (k SwishKeys) Build(b *models.Builder, x *graph.Value) *graph.Value {
	return b.One(Swish(k), x)
}

// Halved is a layer that loses samples.
type Halved struct{}

func (Halved) Build(b *models.Builder, x *graph.Value) *graph.Value {
	return ops.SliceOf(b.Builder, x, []int{0, 0}, []int{x.Meta.Shape[0] / 2, x.Meta.Shape[1]})
}

// PanicsLayer is a layer of an op whose kernel panics.
type PanicsLayer struct{}

func (PanicsLayer) Build(b *models.Builder, x *graph.Value) *graph.Value { return b.One(Panics{}, x) }

// BuildPanics is a layer that cannot be built.
type BuildPanics struct{}

func (BuildPanics) Build(*models.Builder, *graph.Value) *graph.Value { panic("nobody builds this") }

// Swish is y = x·sigmoid(Beta·x), an elementwise op.
type Swish struct{ Beta float64 }

func (o Swish) Kind() string { return "swish2" }

func (o Swish) Infer(in []shape.Meta) ([]shape.Meta, error) { return ops.SameMeta(in, 1) }

func (o Swish) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{b.One(SwishGrad(o), n.In[0], dy[0])}
}

func (o Swish) Cost(in, out []shape.Meta) graph.Cost { return ops.CostPerElement(12, in, out) }

func (o Swish) Map(y, a, _ []float32) {
	for i, x := range a {
		y[i] = x * sigmoid(float32(o.Beta)*x)
	}
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// SwishGrad is the gradient of Swish from (x, dy).
type SwishGrad struct{ Beta float64 }

func (o SwishGrad) Kind() string { return "swish2_grad" }

func (o SwishGrad) Infer(in []shape.Meta) ([]shape.Meta, error) { return ops.SameMeta(in, 2) }

func (o SwishGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return ops.NoGradient(b, n)
}

func (o SwishGrad) Cost(in, out []shape.Meta) graph.Cost { return ops.CostPerElement(14, in, out) }

func (o SwishGrad) Map(y, a, b []float32) {
	for i, x := range a {
		s := sigmoid(float32(o.Beta) * x)
		y[i] = b[i] * (s + float32(o.Beta)*x*s*(1-s))
	}
}

// Sign is -1, 0 or 1.
type Sign struct{}

func (o Sign) Kind() string { return "sign" }

func (o Sign) Infer(in []shape.Meta) ([]shape.Meta, error) { return ops.SameMeta(in, 1) }

func (o Sign) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return ops.NoGradient(b, n)
}

func (o Sign) Cost(in, out []shape.Meta) graph.Cost { return ops.CostPerElement(1, in, out) }

func (o Sign) Map(y, a, _ []float32) {
	for i, x := range a {
		switch {
		case x > 0:
			y[i] = 1
		case x < 0:
			y[i] = -1
		default:
			y[i] = 0
		}
	}
}

// Roll moves the numbers of each row By places on, the last ones to the front. It is an
// op that is computed as a whole.
type Roll struct{ By int }

func (o Roll) Kind() string { return "roll" }

func (o Roll) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if len(in) == 1 && in[0].Shape.Rank() != 2 {
		return nil, fmt.Errorf("its input is %v, expected rows", in[0])
	}
	return ops.SameMeta(in, 1)
}

func (o Roll) Grad(b *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{b.One(Roll{-o.By}, dy[0])}
}

func (o Roll) Cost(in, out []shape.Meta) graph.Cost { return ops.CostPerElement(1, in, out) }

func (o Roll) Compute(in, out []graph.Tensor) error {
	cols := in[0].Meta.Shape[1]
	for i, x := range in[0].F {
		row, col := i/cols, i%cols
		out[0].F[row*cols+((col+o.By)%cols+cols)%cols] = x
	}
	return nil
}

// Panics is an op whose kernel panics.
type Panics struct{}

func (o Panics) Kind() string { return "panics" }

func (o Panics) Infer(in []shape.Meta) ([]shape.Meta, error) { return ops.SameMeta(in, 1) }

func (o Panics) Grad(_ *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value { return dy }

func (o Panics) Cost(in, out []shape.Meta) graph.Cost { return ops.CostPerElement(1, in, out) }

func (o Panics) Map(y, _, _ []float32) { y[len(y)] = 1 }

// GatedKeys are the keys of the layer gated.
type GatedKeys struct {
	Units int      `yaml:"units" min:"1" doc:"outputs"`
	Shift int      `yaml:"shift"`
	Rate  float64  `yaml:"rate" min:"0" max:"0.9"`
	Tags  []string `yaml:"tags"`
}

// Build makes a layer with a parameter of its own, layers of ours inside, dropout and an op
// that is computed as a whole.
func (k GatedKeys) Build(b *models.Builder, x *graph.Value) *graph.Value {
	w := b.Param("gate", []int{k.Units, x.Meta.Shape.Dim(-1)}, graph.Init{Kind: graph.Uniform, A: 0.1}, "weight")
	gate := ops.Sigmoid(b.Builder, b.MatMul(x, w, true))
	y := b.Stack(x, models.Named{Name: "in", Layer: models.Dense{Units: k.Units}}, models.Named{Name: "norm", Layer: models.LayerNorm{}})
	y = b.Dropout("drop", ops.Mul(b.Builder, y, gate), k.Rate)
	return b.One(Roll{k.Shift}, y)
}

// SmoothKeys are the keys of the loss smoothed.
type SmoothKeys struct {
	Eps float64 `yaml:"eps" min:"0" max:"1" doc:"share of the label that all classes get"`
}

func smoothed(b *models.Builder, k SmoothKeys, output, target *graph.Value) *graph.Value {
	classes := float64(output.Meta.Shape.Dim(-1))
	right := b.One(ops.CrossEntropy{}, output, target)
	all := ops.SumToShape(b.Builder, ops.LogSoftmaxOf(b.Builder, output), shape.Of())
	return ops.Sub(b.Builder, ops.ScaleBy(b.Builder, right, 1-k.Eps), ops.ScaleBy(b.Builder, all, k.Eps/classes))
}

// SignumKeys are the keys of the optimizer signum.
type SignumKeys struct {
	Beta  float64 `yaml:"beta" min:"0" max:"1"`
	Decay float64 `yaml:"weight_decay" min:"0"`
}

func signum(u *optim.Update, k SignumKeys, w, g *graph.Value) *graph.Value {
	b, m := u.Builder, u.State("momentum")
	now := b.One(ops.Lerp{T: 1 - k.Beta}, m, g)
	u.Set(m, now)
	step := b.One(Sign{}, now)
	if k.Decay > 0 && u.Decays() {
		step = ops.Add(b, step, ops.ScaleBy(b, w, k.Decay))
	}
	return ops.Sub(b, w, ops.Mul(b, step, u.Rate()))
}

// odd is an optimizer whose states are: the last gradient; the one before, a counter that
// reads no gradient, and the old weight, which is read by nothing.
func odd(u *optim.Update, _ struct{}, w, g *graph.Value) *graph.Value {
	b := u.Builder
	last, before, count, old := u.State("last"), u.State("before"), u.State("count"), u.State("old")
	u.Set(last, g)
	u.Set(before, last)
	u.Set(count, ops.AddConst(b, count, 1))
	u.Set(old, w)
	g = ops.Add(b, g, ops.ScaleBy(b, ops.Sub(b, last, before), 0.1))
	g = ops.Add(b, g, ops.ScaleBy(b, count, 1e-4))
	return ops.Sub(b, w, ops.Mul(b, g, u.Rate()))
}

// PolynomialKeys are the keys of the schedule polynomial.
type PolynomialKeys struct {
	Power float64 `yaml:"power" min:"0"`
}

// confidence is the mean probability of the likeliest class.
var confidence = metrics.Metric{
	Name: "confidence", Version: 1, Doc: "mean probability of the likeliest class", Kinds: []metrics.Kind{metrics.Classes}, Lower: true,
	Needs: []*metrics.Statistic{likeliest},
	Value: func(c *metrics.Collected) float64 { return c.Of(likeliest)[0] / float64(c.Answers) },
}

var likeliest = &metrics.Statistic{
	Name: "likeliest",
	Build: func(b *graph.Builder, x metrics.Batch) *graph.Value {
		most := b.One(ops.Reduce{Fn: "max", Axes: []int{1}}, ops.SoftmaxOf(b, x.Output))
		return b.One(ops.Reduce{Fn: "sum", Axes: []int{0}, Keep: true}, most)
	},
}

// targetMean is made from numbers as the data has them, and targetVariance from the spread.
var targetMean = metrics.Metric{
	Name: "target_mean", Version: 1, Doc: "mean of the targets", Kinds: []metrics.Kind{metrics.Numbers}, Needs: []*metrics.Statistic{targetSum},
	Value: func(c *metrics.Collected) float64 { return c.Of(targetSum)[0] / float64(c.Answers) },
}

var targetSum = &metrics.Statistic{
	Name: "target_sum",
	Build: func(b *graph.Builder, x metrics.Batch) *graph.Value {
		return b.One(ops.Reduce{Fn: "sum", Axes: []int{0}}, x.Unscaled(b, x.Target))
	},
}

var targetVariance = metrics.Metric{
	Name: "target_variance", Version: 1, Doc: "variance of the targets", Kinds: []metrics.Kind{metrics.Numbers}, Spread: true,
	Value: func(c *metrics.Collected) float64 { return c.Spread[0] * c.Unit(0) * c.Unit(0) / float64(c.Answers) },
}

var checkPanics bool

func checkOrPanic(metrics.Task) error {
	if checkPanics {
		panic("no check")
	}
	return nil
}

// failing is a metric that only those who name it get.
func failing(name string, needs *metrics.Statistic, check func(metrics.Task) error, value func(*metrics.Collected) float64) metrics.Metric {
	return metrics.Metric{Name: name, Version: 2, Needs: []*metrics.Statistic{needs}, Check: check, Quick: func(metrics.Task) bool { return false }, Value: value}
}

var (
	fixed = &metrics.Statistic{Name: "fixed", Build: func(b *graph.Builder, x metrics.Batch) *graph.Value {
		return b.One(ops.Fill{Meta: shape.F32(1)})
	}}
	unbuilt = &metrics.Statistic{Name: "unbuilt", Build: func(*graph.Builder, metrics.Batch) *graph.Value { panic("no numbers") }}
)

// FailsKeys are the keys of the layer fails.
type FailsKeys struct {
	In string `yaml:"in"`
}

// Check fails as it is asked to.
func (k FailsKeys) Check() error {
	if k.In == "Check" {
		panic("no check")
	}
	return nil
}

// Build fails as it is asked to.
func (k FailsKeys) Build(b *models.Builder, x *graph.Value) *graph.Value { return b.One(Fails(k), x) }

// Fails is an op of which one method panics, or gives too little.
type Fails struct{ In string }

func (o Fails) Kind() string { return "fails" }

func (o Fails) panicsIn(method string) {
	if o.In == method {
		panic("no " + method)
	}
}

func (o Fails) Infer(in []shape.Meta) ([]shape.Meta, error) {
	o.panicsIn("Infer")
	if o.In == "no outputs" {
		return nil, nil
	}
	return ops.SameMeta(in, 1)
}

func (o Fails) Grad(_ *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	o.panicsIn("Grad")
	if o.In == "no gradients" {
		return nil
	}
	return dy
}

func (o Fails) Cost(in, out []shape.Meta) graph.Cost {
	o.panicsIn("Cost")
	return ops.CostPerElement(1, in, out)
}

func (o Fails) Map(y, a, _ []float32) { copy(y, a) }

// CharbonnierKeys are the keys of the loss charbonnier.
type CharbonnierKeys struct {
	Delta float64 `yaml:"delta" min:"0"`
}

func charbonnier(b *models.Builder, k CharbonnierKeys, output, target *graph.Value) *graph.Value {
	d := ops.Square(b.Builder, ops.Sub(b.Builder, output, target))
	return ops.SumToShape(b.Builder, ops.Sqrt(b.Builder, ops.AddConst(b.Builder, d, k.Delta*k.Delta)), shape.Of())
}
