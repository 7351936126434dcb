package optim

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

// ErrSpec is the cause of errors about a Spec.
var ErrSpec = errors.New("optimizer")

// Spec describes the update of variables.
type Spec struct {
	Name     string           // sgd, momentum, nesterov, adam, adamw, lion or one of [Register]
	Keys     any              // of the optimizer, such as Momentum{Momentum: 0.5}, or a pointer to them; nil: the defaults
	ClipNorm float64          // largest norm of all gradients together; 0: no limit
	GradNorm bool             // Append computes that norm, also without ClipNorm
	NoDecay  []string         // tags (bias, norm, embedding) of variables without weight decay
	Freeze   []string         // patterns (path.Match) of the names of variables that are not trained
	Schedule ops.LearningRate // learning rate by step
	// EMA is the decay d of a moving average a of each trained variable w, which becomes
	// a + (1-d)*(w - a) after each step (Polyak and Juditsky 1992); 0: there is none. It is the
	// variable graph.AverageOf(w), and begins with w's first contents.
	EMA float64
}

// Averages reports of the name of a parameter whether training keeps an average of it; nil
// where there are no averages.
func (s Spec) Averages() func(parameter string) bool {
	if s.EMA == 0 {
		return nil
	}
	return func(name string) bool { return !s.frozen(name) }
}

// frozen reports whether a freeze pattern matches the name of a parameter.
func (s Spec) frozen(name string) bool {
	return slices.ContainsFunc(s.Freeze, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// Trains reports whether s trains a variable of a model: a parameter that is neither frozen nor of an adapter's base.
func (s Spec) Trains(v *graph.Value) bool {
	return v.Role == graph.Parameter && !v.Tagged(graph.BaseTag) && !s.frozen(v.Whole().Name)
}

// tags are the valid items of Spec.NoDecay.
var tags = []string{"bias", "norm", "embedding"}

// optimizers is the table of optimizers, by name: each appends the update of v by its
// gradient g.
var optimizers = map[string]func(u *updater, v, g *graph.Value){}

// validate refuses unknown names.
func (s Spec) validate() error {
	registry.Seal() // the table is read from now on
	if optimizers[s.Name] == nil {
		return fmt.Errorf("%w: no optimizer %q: there are %s", ErrSpec, s.Name, strings.Join(slices.Sorted(maps.Keys(optimizers)), ", "))
	}
	for _, t := range s.NoDecay {
		if !slices.Contains(tags, t) {
			return fmt.Errorf("%w: no_decay: no group of parameters %q: there are %s", ErrSpec, t, strings.Join(tags, ", "))
		}
	}
	if s.EMA < 0 || s.EMA >= 1 {
		return fmt.Errorf("%w: ema %v is outside [0,1): give a decay such as 0.999, or 0 for no average", ErrSpec, s.EMA)
	}
	return nil
}

// trained lists the parameters that s trains, in the order of declaration. It
// fails if a freeze pattern matches no parameter, or if none is left to train.
func (s Spec) trained(vars []*graph.Value) ([]*graph.Value, error) {
	hit := make([]bool, len(s.Freeze)) // the patterns that match a parameter
	var out []*graph.Value
	for _, v := range vars {
		if v.Role != graph.Parameter {
			continue
		}
		frozen := false
		for i, pat := range s.Freeze {
			ok, err := path.Match(pat, v.Name)
			if err != nil {
				return nil, fmt.Errorf("%w: freeze pattern %q: %w: write a name, with * for any characters", ErrSpec, pat, err)
			}
			hit[i] = hit[i] || ok
			frozen = frozen || ok
		}
		if !frozen {
			out = append(out, v)
		}
	}
	if i := slices.Index(hit, false); i >= 0 {
		return nil, fmt.Errorf("%w: freeze pattern %q matches no parameter: there are %s", ErrSpec, s.Freeze[i], parameterNames(vars))
	}
	if len(out) > 0 {
		return out, nil
	}
	if len(s.Freeze) > 0 {
		return nil, fmt.Errorf("%w: freeze %q leaves no parameter to train: freeze fewer of %s", ErrSpec, s.Freeze, parameterNames(vars))
	}
	return nil, fmt.Errorf("%w: the model has no parameters to train: give it a layer that has, such as dense", ErrSpec)
}

// parameterNames lists the parameters, for errors.
func parameterNames(vars []*graph.Value) string {
	var names []string
	for _, v := range vars {
		if v.Role == graph.Parameter {
			names = append(names, v.Name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	if len(names) > 12 {
		names = append(names[:12], "…")
	}
	return strings.Join(names, ", ")
}

// Terms is the number of a step's loss terms, over which the loss is averaged.
type Terms struct {
	Fixed int // the same in each step; valid without Counted
	// Counted is the number of terms of a microbatch, f32[], where it differs. Append
	// puts that of the step in its place.
	Counted *graph.Value
}

// Scale is the factor for a sum over the terms: 1/Fixed, or 1 with Counted, by which the
// sum is then divided.
func (t Terms) Scale() float64 {
	if t.Counted != nil {
		return 1
	}
	return 1 / float64(t.Fixed)
}

// Append differentiates loss, a sum over terms, and appends the update of every
// trained variable among vars. The update follows the mean over terms. step counts the steps taken so far. norm is the
// norm of all gradients together, before it is clipped; nil without GradNorm.
func Append(b *graph.Builder, s Spec, loss, step *graph.Value, vars []*graph.Value, terms *Terms) (norm *graph.Value) {
	b.Fail(s.validate())
	trained, err := s.trained(vars)
	b.Fail(err)
	if b.Err() != nil {
		return nil
	}
	seed := seedOf(b)
	uses := b.Gradients(loss, seed, trained, ops.AddOp)
	grads := totals(b, trained, uses)
	defer b.InPhase(graph.Update)()
	u := updater{Spec: s, b: b, step: step, scale: terms.Scale()}
	if terms.Counted != nil {
		terms.Counted = b.Accumulate(terms.Counted, ops.AddOp)
		u.mean = ops.Div(b, ops.Const(b, shape.F32(), 1), terms.Counted)
	}
	u.lr = b.One(s.Schedule.Complete(), step)
	if s.ClipNorm > 0 || s.GradNorm {
		norm = u.limit(trained, grads)
	}
	u.limitMean()
	for _, v := range trained {
		switch g := grads[v]; {
		case b.Err() != nil:
		case g != nil:
			u.update(v, g)
		case s.EMA > 0:
			u.still(v)
		}
	}
	return norm
}

// seedOf is the gradient of the loss with respect to itself.
func seedOf(b *graph.Builder) *graph.Value {
	defer b.InPhase(graph.Backward)()
	return ops.Const(b, shape.F32(), 1)
}

// totals sums each variable's gradients. uses has one for each use of the
// variable, in graph order: each is summed over microbatches, then all are added.
func totals(b *graph.Builder, vars []*graph.Value, uses map[*graph.Value][]*graph.Value) map[*graph.Value]*graph.Value {
	defer b.InPhase(graph.Update)()
	grads := map[*graph.Value]*graph.Value{}
	for _, v := range vars {
		if b.Err() != nil {
			break
		}
		restore := b.In(v.Layer)
		for _, p := range uses[v] {
			p = b.Accumulate(p, ops.AddOp)
			if grads[v] != nil {
				p = ops.Add(b, grads[v], p)
			}
			grads[v] = p
		}
		restore()
	}
	return grads
}

// limit appends the factor that limits the norm of all gradients together (Pascanu
// et al., "On the difficulty of training recurrent neural networks", 2013), and the
// norm, as far as u asks for them.
func (u *updater) limit(vars []*graph.Value, grads map[*graph.Value]*graph.Value) (norm *graph.Value) {
	squares := squaresOf(u.b, vars, grads)
	if len(squares) == 0 {
		return nil
	}
	if u.mean != nil {
		scale := ops.Mul(u.b, u.mean, u.mean)
		for i := range squares {
			squares[i] = ops.Mul(u.b, squares[i], scale)
		}
	}
	if u.ClipNorm > 0 {
		u.clip = u.b.One(ops.ClipFactor{MaxNorm: u.ClipNorm, Scale: u.scale}, squares...)
	}
	if u.GradNorm {
		norm = u.b.One(ops.GradNorm{Scale: u.scale}, squares...)
	}
	return norm
}

// limitMean makes the factor for gradients that of their mean, where terms are counted.
func (u *updater) limitMean() {
	switch {
	case u.mean == nil:
	case u.clip == nil:
		u.clip = u.mean
	default:
		u.clip = ops.Mul(u.b, u.clip, u.mean)
	}
}

// squaresOf are the gradients' sums of squares, in the order of names: they are added
// in that order, so the cut into stages does not change the sum.
func squaresOf(b *graph.Builder, vars []*graph.Value, grads map[*graph.Value]*graph.Value) []*graph.Value {
	byName := slices.Clone(vars)
	slices.SortFunc(byName, func(x, y *graph.Value) int { return strings.Compare(x.Name, y.Name) })
	var squares []*graph.Value
	for _, v := range byName {
		if grads[v] == nil || b.Err() != nil {
			continue
		}
		restore := b.In(v.Layer)
		squares = append(squares, b.One(ops.SumSquares{}, grads[v]))
		restore()
	}
	return squares
}

// updater appends the updates of variables, one by one.
type updater struct {
	Spec
	b              *graph.Builder
	step, lr, clip *graph.Value // clip multiplies gradients after scale; nil: gradients are not clipped
	mean           *graph.Value // 1/terms of the step, f32[]; nil: scale has it
	scale          float64      // factor that turns the gradient of the sum over terms into that of the mean
}

// update appends the update of v by its gradient g.
func (u *updater) update(v, g *graph.Value) {
	defer u.b.In(v.Layer)()
	optimizers[u.Name](u, v, g)
}

// decays reports whether v is in no group of NoDecay.
func (u *updater) decays(v *graph.Value) bool {
	return !slices.ContainsFunc(u.NoDecay, func(tag string) bool { return slices.Contains(v.Tags, tag) })
}

// still appends the average of v, which stays as it is.
func (u *updater) still(v *graph.Value) {
	defer u.b.In(v.Layer)()
	u.b.Assign(u.average(v), u.b.One(ops.Affine{Scale: 1}, v))
}

// average declares the average of v. It begins with v's first contents.
func (u *updater) average(v *graph.Value) *graph.Value {
	return u.b.Var(graph.AverageOf(v.Name), v.Meta, graph.Average, v.Init)
}

// state declares an optimizer variable of v, which is zero at first.
func (u *updater) state(v *graph.Value, kind string) *graph.Value {
	return u.b.Var(v.Name+"/"+kind, v.Meta, graph.OptState, graph.Init{})
}
