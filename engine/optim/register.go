package optim

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/internal/panics"
)

// OptimizerType is an optimizer that a program adds. Keys is the struct of its keys in
// a config, as [registry.Fields] takes it; struct{} for none. The keys lr, clip_norm,
// no_decay and freeze are there for all optimizers.
type OptimizerType[Keys any] struct {
	Name    string
	Version int    // at least 1; runs keep it, and refuse another one: raise it where the numbers change
	Doc     string // a sentence for lists
	// Defaults are the keys that are not given. A method Check() error of Keys can
	// refuse values.
	Defaults Keys
	// Update appends the update of the weight w and gives its new value. g is the
	// gradient of the mean loss, clipped if the config asks for that.
	Update func(u *Update, keys Keys, w, g *graph.Value) *graph.Value
}

// Register adds an optimizer, for configs and for [Spec.Name]. It belongs in an init
// function, and panics where the optimizer cannot be added.
func Register[Keys any](t OptimizerType[Keys]) {
	row := func(u *updater, v, g *graph.Value, _ float64) {
		keys, err := registry.KeysOf(u.Keys, t.Defaults)
		if err != nil {
			u.b.Fail(fmt.Errorf("%w: %s: %w", ErrSpec, t.Name, err))
			return
		}
		x := &Update{Builder: u.b, u: u, v: v, name: t.Name, set: map[*graph.Value]bool{}, given: map[*graph.Value]bool{}}
		defer x.guard()
		x.assign(v, t.Update(x, keys, v, x.mean(g)))
		x.finish()
	}
	if _, taken := optimizers[t.Name]; taken {
		panic("register optimizer " + t.Name + ": the name exists already: choose another")
	}
	registry.Add(registry.Entry{Kind: registry.Optimizer, Name: t.Name, Version: t.Version, Doc: t.Doc, Keys: t.Defaults},
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
	set    map[*graph.Value]bool // the states that have their new value
	given  map[*graph.Value]bool // the values that are assigned
}

// Rate is the learning rate of the step, f32[].
func (x *Update) Rate() *graph.Value { return x.u.lr }

// Step is the number of steps before this one, i32[].
func (x *Update) Step() *graph.Value { return x.u.step }

// Decays reports whether the weight takes part in weight decay: it is in no group of
// the config's no_decay.
func (x *Update) Decays() bool { return x.u.decays(x.v) }

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
	x.Assign(v, now)
}

// mean is the clipped gradient of the mean loss, from that of its sum.
func (x *Update) mean(g *graph.Value) *graph.Value {
	g = ops.ScaleBy(x.Builder, g, x.u.scale)
	if x.u.clip != nil {
		g = ops.Mul(x.Builder, g, x.u.clip)
	}
	return g
}

// finish refuses an update that forgets a state.
func (x *Update) finish() {
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
