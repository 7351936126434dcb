package optim_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
)

// Two samples of a line, by which w and c are trained: the loss is the sum of
// (w x + c - t)² over them.
var (
	lineX = []float64{1.5, -0.7}
	lineT = []float64{-2, 0.3}
)

const terms = 2

// decay is the weight decay of the comparisons by hand.
const decay = 0.1

// line is a training step of w and c.
type line struct {
	g    *graph.Graph
	w, c *graph.Value
	feed map[*graph.Value]ref.Array
}

func newLine(s optim.Spec) (*line, error) {
	b := graph.NewBuilder("train", 1)
	x, t := b.Input("x", shape.F32(2)), b.Input("t", shape.F32(2))
	step := b.Var("step", shape.I32(), graph.Counter, graph.Init{})
	w := b.Var("fc.weight", shape.F32(1), graph.Parameter, graph.Init{}, "weight")
	c := b.Var("fc.bias", shape.F32(1), graph.Parameter, graph.Init{}, "bias")
	still := b.Var("bn.running_mean", shape.F32(1), graph.Statistic, graph.Init{})
	loss := b.One(ops.MSE{}, ops.Add(b, ops.Mul(b, x, w), c), t)
	optim.Append(b, s, loss, step, []*graph.Value{w, c, still}, &optim.Terms{Fixed: terms})
	b.Assign(step, b.One(ops.Increment{}, step))
	g, err := b.Graph()
	if err != nil {
		return nil, err
	}
	l := &line{g: g, w: w, c: c, feed: map[*graph.Value]ref.Array{x: ref.Floats(lineX, 2), t: ref.Floats(lineT, 2)}}
	for _, v := range g.Vars {
		l.feed[v] = ref.New(v.Meta)
	}
	l.feed[w], l.feed[c] = ref.Floats([]float64{0.8}, 1), ref.Floats([]float64{-0.4}, 1)
	return l, nil
}

func (l *line) step(t *testing.T) {
	t.Helper()
	vals, err := ref.Eval(l.g, l.feed)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range l.g.Assigns {
		l.feed[a.Var] = vals[a.New]
	}
}

// weight is one trained number as PyTorch's documentation of the optimizers
// updates it, and lion's paper, written out by hand.
type weight struct {
	w, m, v float64
	decay   float64
}

func (p *weight) update(s optim.Spec, g, lr float64, step int) {
	momentum, _ := s.Keys.(optim.Momentum)
	adam, _ := s.Keys.(optim.Adam)
	lion, _ := s.Keys.(optim.Lion)
	if s.Name == "adamw" || s.Name == "lion" {
		p.w -= lr * p.decay * p.w
	} else {
		g += p.decay * p.w
	}
	switch s.Name {
	case "sgd":
		p.w -= lr * g
	case "momentum":
		p.m = momentum.Momentum*p.m + g
		p.w -= lr * p.m
	case "nesterov":
		p.m = momentum.Momentum*p.m + g
		p.w -= lr * (g + momentum.Momentum*p.m)
	case "lion":
		p.w -= lr * math.Copysign(1, lion.Betas[0]*p.m+(1-lion.Betas[0])*g)
		p.m = lion.Betas[1]*p.m + (1-lion.Betas[1])*g
	default:
		p.m = adam.Betas[0]*p.m + (1-adam.Betas[0])*g
		p.v = adam.Betas[1]*p.v + (1-adam.Betas[1])*g*g
		mHat := p.m / (1 - math.Pow(adam.Betas[0], float64(step+1)))
		vHat := p.v / (1 - math.Pow(adam.Betas[1], float64(step+1)))
		p.w -= lr * mHat / (math.Sqrt(vHat) + adam.Eps)
	}
}

// rate is the learning rate of a step by hand, for the schedules of rates.
func rate(s ops.LearningRate, step int) float64 {
	if step < s.Warmup {
		return s.Base * float64(step+1) / float64(s.Warmup)
	}
	stepped, _ := s.Keys.(ops.Stepped)
	falling, _ := s.Keys.(ops.Falling)
	done := math.Min(1, float64(step-s.Warmup)/float64(s.Total-s.Warmup))
	switch s.Schedule {
	case "step":
		r := s.Base
		for k := s.Warmup + stepped.Every; k <= step; k += stepped.Every {
			r *= stepped.Gamma
		}
		return r
	case "cosine":
		return falling.Min + (s.Base-falling.Min)*(1+math.Cos(math.Pi*done))/2
	case "inverse_sqrt":
		return s.Base * math.Min(math.Pow(float64(step+1), -0.5), math.Pow(float64(s.Warmup), -1.5)*float64(step+1)) * math.Sqrt(float64(max(1, s.Warmup)))
	case "linear":
		return s.Base*(1-done) + falling.Min*done
	}
	return s.Base
}

// gradients of the mean loss, clipped by torch's clip_grad_norm_ formula:
// times min(1, max_norm / (norm + 1e-6)).
func gradients(w, c, maxNorm float64) (dw, dc float64) {
	for i, x := range lineX {
		d := 2 * (w*x + c - lineT[i]) / terms
		dw += d * x
		dc += d
	}
	if maxNorm > 0 {
		f := math.Min(1, maxNorm/(math.Sqrt(dw*dw+dc*dc)+1e-6))
		dw, dc = dw*f, dc*f
	}
	return dw, dc
}

func closeTo(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-11*math.Max(1, math.Abs(want))) {
		t.Fatalf("%s is %.15g, by hand %.15g", what, got, want)
	}
}

func TestOptimizersAgreeWithHandWrittenOnes(t *testing.T) {
	adam := optim.Adam{Betas: [2]float64{0.8, 0.95}, Eps: 1e-3, Decay: optim.Decay{WeightDecay: decay}}
	momentum := optim.Momentum{Momentum: 0.9, Decay: optim.Decay{WeightDecay: decay}}
	lion := optim.Lion{Betas: [2]float64{0.8, 0.95}, Decay: optim.Decay{WeightDecay: decay}}
	for name, keys := range map[string]any{"sgd": optim.SGD{Decay: optim.Decay{WeightDecay: decay}}, "momentum": momentum, "nesterov": momentum, "adam": adam, "adamw": adam, "lion": lion} {
		for schedule, course := range map[string]any{"constant": nil, "step": ops.Stepped{Every: 2, Gamma: 0.5}, "cosine": ops.Falling{Min: 0.01}, "linear": ops.Falling{Min: 0.01}, "inverse_sqrt": nil} {
			for _, warmup := range []int{0, 3} {
				for _, clip := range []float64{0, 0.5, 100} {
					s := optim.Spec{
						Name: name, Keys: keys, ClipNorm: clip, NoDecay: []string{"bias"},
						Schedule: ops.LearningRate{Schedule: schedule, Keys: course, Base: 0.05, Warmup: warmup, Total: 8},
					}
					t.Run(fmt.Sprintf("%s/%s/warmup=%d/clip=%v", name, schedule, warmup, clip), func(t *testing.T) { follow(t, s) })
				}
			}
		}
	}
}

// follow takes ten steps, two of them beyond the schedule's end.
func follow(t *testing.T, s optim.Spec) {
	l, err := newLine(s)
	if err != nil {
		t.Fatal(err)
	}
	w, c := weight{w: 0.8, decay: decay}, weight{w: -0.4}
	for step := range 10 {
		dw, dc := gradients(w.w, c.w, s.ClipNorm)
		lr := rate(s.Schedule, step)
		w.update(s, dw, lr, step)
		c.update(s, dc, lr, step)
		l.step(t)
		closeTo(t, fmt.Sprintf("w after step %d", step), l.feed[l.w].F[0], w.w)
		closeTo(t, fmt.Sprintf("c after step %d", step), l.feed[l.c].F[0], c.w)
	}
}

func init() {
	type keys struct{}
	optim.Register(optim.OptimizerType[keys]{Name: "signs", Version: 1, Doc: "for TestAverage",
		Update: func(u *optim.Update, _ keys, w, g *graph.Value) *graph.Value {
			size := ops.Sqrt(u.Builder, ops.Square(u.Builder, g))
			return ops.Sub(u.Builder, w, ops.Mul(u.Builder, ops.Div(u.Builder, g, size), u.Rate()))
		}})
}

// The average begins with the weight and follows it as a plain loop does, for every optimizer,
// also one of ops, and has no effect on the weights.
func TestAverage(t *testing.T) {
	const d = 0.7
	for _, name := range []string{"sgd", "momentum", "nesterov", "adam", "adamw", "signs"} {
		for _, clip := range []float64{0, 0.5} {
			s := spec()
			s.Name, s.ClipNorm = name, clip
			plain, err := newLine(s)
			if err != nil {
				t.Fatal(err)
			}
			s.EMA = d
			l, err := newLine(s)
			if err != nil {
				t.Fatal(err)
			}
			avg := l.g.Find("fc.weight/ema")
			if avg == nil || avg.Role != graph.Average || avg.Averaged() != "fc.weight" || l.g.Find("bn.running_mean/ema") != nil {
				t.Fatalf("%s: the average is %v", name, avg)
			}
			want := l.feed[l.w].F[0]
			l.feed[avg] = ref.Floats([]float64{want}, 1)
			for step := range 5 {
				l.step(t)
				plain.step(t)
				w := l.feed[l.w].F[0]
				want = d*want + (1-d)*w
				closeTo(t, fmt.Sprintf("%s: the average after step %d", name, step), l.feed[avg].F[0], want)
				if w != plain.feed[plain.w].F[0] {
					t.Errorf("%s: w is %v, without an average %v", name, w, plain.feed[plain.w].F[0])
				}
			}
		}
	}
}

// Frozen weights have no average, and trained ones that no gradient reaches one of themselves.
func TestAverageOfWhatStays(t *testing.T) {
	s := spec()
	s.EMA, s.Freeze = 0.9, []string{"*.bias"}
	l, err := newLine(s)
	if err != nil {
		t.Fatal(err)
	}
	averaged := s.Averages()
	if l.g.Find("fc.bias/ema") != nil || averaged("fc.bias") || !averaged("fc.weight") || spec().Averages() != nil {
		t.Error("a frozen weight has an average")
	}
	b := graph.NewBuilder("train", 1)
	x, y := b.Input("x", shape.F32(2)), b.Input("t", shape.F32(2))
	step := b.Var("step", shape.I32(), graph.Counter, graph.Init{})
	w := b.Var("w", shape.F32(1), graph.Parameter, graph.Init{})
	idle := b.Var("idle", shape.F32(1), graph.Parameter, graph.Init{})
	s.Freeze = nil
	optim.Append(b, s, b.One(ops.MSE{}, ops.Mul(b, x, w), y), step, []*graph.Value{w, idle}, &optim.Terms{Fixed: terms})
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	feed := map[*graph.Value]ref.Array{x: ref.Floats(lineX, 2), y: ref.Floats(lineT, 2)}
	for _, v := range g.Vars {
		feed[v] = ref.New(v.Meta)
	}
	feed[idle] = ref.Floats([]float64{3}, 1)
	vals, err := ref.Eval(g, feed)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range g.Assigns {
		if a.Var.Name == "idle/ema" && vals[a.New].F[0] == 3 {
			return
		}
	}
	t.Error("idle has no average of itself")
}

// spec is one that works, to be broken.
func spec() optim.Spec {
	return optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}}
}

func TestClippedGradientHasTheBoundAsItsNorm(t *testing.T) {
	s := spec()
	s.ClipNorm, s.Schedule.Base = 0.25, 1
	l, err := newLine(s)
	if err != nil {
		t.Fatal(err)
	}
	l.step(t)
	norm := math.Hypot(l.feed[l.w].F[0]-0.8, l.feed[l.c].F[0]+0.4)
	if norm > 0.25 || norm < 0.25*(1-1e-5) {
		t.Errorf("the step has norm %v, expected just under 0.25", norm)
	}
}

func TestNoDecayGoesByTag(t *testing.T) {
	for _, c := range []struct {
		noDecay []string
		w, c    float64 // decay of each
	}{
		{nil, 0.1, 0.1},
		{[]string{"bias"}, 0.1, 0},
		{[]string{"norm", "embedding"}, 0.1, 0.1},
		{[]string{"norm", "bias"}, 0.1, 0},
	} {
		s := spec()
		s.Keys, s.NoDecay = optim.SGD{Decay: optim.Decay{WeightDecay: 0.1}}, c.noDecay
		l, err := newLine(s)
		if err != nil {
			t.Fatal(err)
		}
		l.step(t)
		dw, dc := gradients(0.8, -0.4, 0)
		closeTo(t, "w", l.feed[l.w].F[0], 0.8-0.1*(dw+c.w*0.8))
		closeTo(t, "c", l.feed[l.c].F[0], -0.4-0.1*(dc-c.c*0.4))
	}
}

func TestMomentumOf0IsPlainSGD(t *testing.T) {
	for _, name := range []string{"momentum", "nesterov"} {
		s := spec()
		s.Name, s.Keys = name, optim.Momentum{}
		l, err := newLine(s)
		if err != nil {
			t.Fatal(err)
		}
		l.step(t)
		dw, _ := gradients(0.8, -0.4, 0)
		closeTo(t, "w", l.feed[l.w].F[0], 0.8-0.1*dw)
	}
}

func TestFrozenStaysAsItIs(t *testing.T) {
	for _, pattern := range []string{"fc.bias", "*.bias", "*bias", "fc.b???"} {
		s := spec()
		s.Name, s.Freeze = "momentum", []string{pattern}
		l, err := newLine(s)
		if err != nil {
			t.Fatal(err)
		}
		l.step(t)
		if got := l.feed[l.c].F[0]; got != -0.4 {
			t.Errorf("%q: the bias moved to %v", pattern, got)
		}
		dw, _ := gradients(0.8, -0.4, 0)
		closeTo(t, "w", l.feed[l.w].F[0], 0.8-0.1*dw)
		if l.g.Find("fc.bias/momentum") != nil || l.g.Find("fc.weight/momentum") == nil {
			t.Errorf("%q: expected momentum for the weight alone", pattern)
		}
	}
}

func TestStateIsNamedAndSaved(t *testing.T) {
	s := spec()
	s.Name = "adam"
	l, err := newLine(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fc.weight/exp_avg", "fc.weight/exp_avg_sq", "fc.bias/exp_avg", "fc.bias/exp_avg_sq"} {
		if v := l.g.Find(name); v == nil || v.Role != graph.OptState || !v.Meta.Equal(shape.F32(1)) {
			t.Errorf("%s is %v, expected optimizer state f32[1]", name, v)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for want, spoil := range map[string]func(*optim.Spec){
		`train: optimizer: no optimizer "adamax": there are adam, adamw, lion, momentum, nesterov, sgd, signs`: func(s *optim.Spec) { s.Name = "adamax" },
		`train: optimizer: no optimizer "": there are adam, adamw, lion, momentum, nesterov, sgd, signs`:       func(s *optim.Spec) { s.Name = "" },
		`train: optimizer: no_decay: no group of parameters "bais": there are bias, norm, embedding`: func(s *optim.Spec) {
			s.NoDecay = []string{"bias", "bais"}
		},
		`train: optimizer: freeze pattern "conv*" matches no parameter: there are fc.weight, fc.bias`: func(s *optim.Spec) {
			s.Freeze = []string{"fc.bias", "conv*"}
		},
		// A statistic is no parameter.
		`train: optimizer: freeze pattern "bn.*" matches no parameter: there are fc.weight, fc.bias`: func(s *optim.Spec) {
			s.Freeze = []string{"bn.*"}
		},
		`train: optimizer: freeze ["fc.bias" "*weight"] leaves no parameter to train: freeze fewer of fc.weight, fc.bias`: func(s *optim.Spec) {
			s.Freeze = []string{"fc.bias", "*weight"}
		},
		`train: optimizer: freeze pattern "[": syntax error in pattern: write a name, with * for any characters`: func(s *optim.Spec) {
			s.Freeze = []string{"["}
		},
		"train: optimizer: ema 1 is outside [0,1): give a decay such as 0.999, or 0 for no average": func(s *optim.Spec) { s.EMA = 1 },
		`no schedule "cosin": use constant, `:                                                       func(s *optim.Spec) { s.Schedule.Schedule = "cosin" },
	} {
		s := spec()
		spoil(&s)
		_, err := newLine(s)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nexpected %s", err, want)
			continue
		}
		if strings.HasPrefix(want, "train: optimizer") && !errors.Is(err, optim.ErrSpec) {
			t.Errorf("got %v, expected an ErrSpec", err)
		}
	}
}

func TestNothingToTrainIsAnError(t *testing.T) {
	b := graph.NewBuilder("train", 1)
	x, y := b.Input("x", shape.F32(2)), b.Input("t", shape.F32(2))
	step := b.Var("step", shape.I32(), graph.Counter, graph.Init{})
	optim.Append(b, spec(), b.One(ops.MSE{}, x, y), step, nil, &optim.Terms{Fixed: terms})
	const want = "train: optimizer: the model has no parameters to train: give it a layer that has, such as dense"
	if err := b.Err(); !errors.Is(err, optim.ErrSpec) || err.Error() != want {
		t.Errorf("got %v, expected %s", err, want)
	}
}
