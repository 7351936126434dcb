package optim

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/internal/panics"
)

// OptimizerType is an optimizer that configs know. Keys is the struct of its keys, as
// [registry.Fields] takes it; struct{} for none. The keys lr, clip_norm, no_decay and
// freeze are there for all optimizers.
type OptimizerType[Keys any] struct {
	Name    string
	Version int    // at least 1; runs keep it, and refuse another one: raise it where the numbers change
	Doc     string // a sentence for lists
	// Defaults are the keys that are not given. A method Check() error of Keys can
	// refuse values.
	Defaults Keys
	// Update appends the update of the weight w and gives its new value, of which an average is kept
	// where Spec.EMA asks for one. g is the
	// gradient of the mean loss, clipped if the config asks for that.
	Update func(u *Update, keys Keys, w, g *graph.Value) *graph.Value
	// Sums: g is the gradient of the loss that is summed over its terms, as it comes from
	// the backward pass. An op of the update multiplies it by [Update.Scale] and, where
	// that is not nil, by [Update.Clip].
	Sums bool
}

// Register adds an optimizer, for configs and for [Spec.Name]. It belongs in an init
// function, and panics where the optimizer cannot be added.
func Register[Keys any](t OptimizerType[Keys]) { t.register(registry.Add) }

// builtIn is Register for the optimizers of this package, which have no version.
func builtIn[Keys any](t OptimizerType[Keys]) { t.register(registry.BuiltIn) }

func (t OptimizerType[Keys]) register(add func(registry.Entry, func())) {
	row := func(u *updater, v, g *graph.Value) {
		keys, err := registry.KeysOf(u.Keys, t.Defaults)
		if err != nil {
			u.b.Fail(fmt.Errorf("%w: %s: %w", ErrSpec, t.Name, err))
			return
		}
		x := &Update{Builder: u.b, u: u, v: v, name: t.Name, set: map[*graph.Value]bool{}, given: map[*graph.Value]bool{}}
		if t.Version > 0 { // a panic of ours is a defect
			defer x.guard()
		}
		if !t.Sums {
			g = x.mean(g)
		}
		x.assign(v, t.Update(x, keys, v, g))
		x.averageNew()
		x.finish()
	}
	add(registry.Entry{Kind: registry.Optimizer, Name: t.Name, Version: t.Version, Doc: t.Doc, Keys: t.Defaults},
		func() { optimizers[t.Name] = row })
}

// Update is the face of a graph under way that the function of an optimizer gets, for
// one weight. Ops are appended to its graph.Builder.
type Update struct {
	*graph.Builder
	u      *updater
	v      *graph.Value // the weight
	name   string       // of the optimizer
	states []*graph.Value
	now    []graph.Assign        // in the order of calls
	set    map[*graph.Value]bool // the states that have their new value
	given  map[*graph.Value]bool // the values that are assigned

	average *graph.Value // of the weight; nil: there is none yet
}

// Rate is the learning rate of the step, f32[].
func (x *Update) Rate() *graph.Value { return x.u.lr }

// Step is the number of steps before this one, i32[].
func (x *Update) Step() *graph.Value { return x.u.step }

// Decays reports whether the weight takes part in weight decay: it is in no group of
// the config's no_decay.
func (x *Update) Decays() bool { return x.u.decays(x.v) }

// Scale is the factor that turns the gradient of the loss that is summed over its terms
// into that of the mean.
func (x *Update) Scale() float64 { return x.u.scale }

// Clip is a further factor for gradients, f32[], which limits their norm; nil: there is
// none.
func (x *Update) Clip() *graph.Value { return x.u.clip }

// State declares a variable of the optimizer for this weight, of its shape and zero at
// first, which is saved as WEIGHT/NAME. It needs a Set.
func (x *Update) State(name string) *graph.Value {
	s := x.u.state(x.v, name)
	x.states = append(x.states, s)
	return s
}

// Set gives a state the value that it has from the next step on.
func (x *Update) Set(state, now *graph.Value) {
	x.set[state] = true
	x.assign(state, now)
}

// assign gives a variable its new value. Each assigned value is the output of a node of
// the update, and of one that assigns nothing else: others are copied.
func (x *Update) assign(v, now *graph.Value) {
	if x.Err() != nil {
		return
	}
	if now == nil {
		x.fail("gives %s no new value", v.Name)
		return
	}
	if now.Kind != graph.Computed || now.Node.Phase != graph.Update || x.given[now] {
		now = x.One(ops.Affine{Scale: 1}, now)
	}
	x.given[now] = true
	x.now = append(x.now, graph.Assign{Var: v, New: now})
}

// averageNew averages the new weight of an optimizer whose op does not.
func (x *Update) averageNew() {
	if x.u.EMA == 0 || x.average != nil || x.Err() != nil {
		return
	}
	x.average = x.u.average(x.v)
	x.Set(x.average, x.One(ops.Lerp{T: 1 - x.u.EMA}, x.average, x.now[len(x.now)-1].New))
}

// mean turns the gradient g of the loss's sum into the clipped gradient of its mean.
func (x *Update) mean(g *graph.Value) *graph.Value {
	g = ops.ScaleBy(x.Builder, g, x.u.scale)
	if x.u.clip != nil {
		g = ops.Mul(x.Builder, g, x.u.clip)
	}
	return g
}

// finish assigns the new values, the weight's first. It refuses an update that forgets a
// state.
func (x *Update) finish() {
	for _, weight := range []bool{true, false} {
		for _, a := range x.now {
			if (a.Var == x.v) == weight {
				x.Assign(a.Var, a.New)
			}
		}
	}
	for _, s := range x.states {
		if !x.set[s] {
			x.fail("declares the state %s and does not set it", s.Name)
		}
	}
}

// fail reports a mistake of the optimizer, which is none of the weight's layer.
func (x *Update) fail(format string, args ...any) {
	defer x.In(nil)()
	x.Fail(fmt.Errorf("%w: %s %s", ErrSpec, x.name, fmt.Sprintf(format, args...)))
}

// guard makes a panic of the function an error.
func (x *Update) guard() {
	if r := recover(); r != nil {
		x.fail("panicked at the update of %s: %s", x.v.Name, panics.Text(r))
	}
}
