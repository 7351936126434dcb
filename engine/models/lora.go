package models

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// ErrAdapt is the cause of errors about [Spec.LoRA]. It is an ErrModel.
var ErrAdapt error = mistake{"adapt.lora"}

// LoRA trains an adapter of rank Rank beside frozen weights (Hu et al., "LoRA: Low-Rank Adaptation
// of Large Language Models", 2021, §4.1). A product x·Wᵀ with W [O,I] becomes
// x·Wᵀ + Alpha/Rank · drop(x)·Aᵀ·Bᵀ, with A [Rank,I] and B [O,Rank]. A begins as the weight of a
// dense layer of that shape does, and B with zeros, so that the first step's model is the base.
// All other parameters have the tag [graph.BaseTag], and no gradient and no state of the optimizer.
type LoRA struct {
	Rank    int     // at least 1
	Alpha   float64 // above 0
	Dropout float64 // probability that a number of x is dropped in training
	// Targets are patterns (path.Match) of the names of dense layers and of projections of
	// attention and gated layers, whole such as layers.0.self_attn.q_proj, or from one of their dots
	// on, such as self_attn.q_proj and q_proj. A last part q_proj is also q.
	Targets []string
}

// The names of an adapter's factors behind that of the layer or projection and a dot, as PEFT has them.
const (
	LoRAIn  = "lora_A.weight" // A
	LoRAOut = "lora_B.weight" // B
)

// InOutTag is the tag of a B whose product's weight is [I,O], as GPT-2 has them, and not [O,I].
const InOutTag = "in_out"

// Scale is the factor of B·A.
func (l *LoRA) Scale() float64 { return l.Alpha / float64(l.Rank) }

// Merge adds the scaled B·A to a weight w [O,I], or [I,O] if inOut. a is A [Rank,I], b is B [O,Rank]. Sums are in float64.
func (l *LoRA) Merge(w, a, b []float32, inOut bool) {
	in, out := len(a)/l.Rank, len(b)/l.Rank
	for o := range out {
		for i := range in {
			sum := 0.0
			for r := range l.Rank {
				sum += float64(b[o*l.Rank+r]) * float64(a[r*in+i])
			}
			at := o*in + i
			if inOut {
				at = i*out + o
			}
			w[at] = float32(float64(w[at]) + l.Scale()*sum)
		}
	}
}

// matches reports whether a pattern is of a layer or projection.
func matches(pattern, name string) bool {
	short := strings.TrimSuffix(name, "_proj")
	for {
		for _, n := range []string{name, short} {
			if ok, err := path.Match(pattern, n); ok && err == nil {
				return true
			}
		}
		_, rest, more := strings.Cut(name, ".")
		if !more {
			return false
		}
		name, short = rest, strings.TrimSuffix(rest, "_proj")
	}
}

// adapted adds the adapter of a product y of x to it, if the config names it. name is the
// product's in the current layer, such as "q_proj."; "" for a layer that is one.
// inOut says that the product's weight is [in,out].
func (c *context) adapted(name string, x, y *graph.Value, inOut bool) *graph.Value {
	l := c.spec.LoRA
	if l == nil || c.b.Err() != nil {
		return y
	}
	full := strings.TrimSuffix(c.b.Layer().Name+"."+name, ".")
	c.products = append(c.products, full)
	hit := false
	for i, p := range l.Targets {
		if matches(p, full) {
			c.hit[i], hit = true, true
		}
	}
	if !hit {
		return y
	}
	if l.Rank < 1 || l.Alpha <= 0 {
		c.fail("an adapter of rank %d and alpha %v: give a rank of at least 1 and an alpha above 0", l.Rank, l.Alpha)
		return y
	}
	in, out := x.Meta.Shape.Dim(-1), y.Meta.Shape.Dim(-1)
	a := c.param(name+LoRAIn, []int{l.Rank, in}, kaiming(in), "weight", graph.AdapterTag)
	tags := []string{"weight", graph.AdapterTag}
	if inOut {
		tags = append(tags, InOutTag)
	}
	b := c.param(name+LoRAOut, []int{out, l.Rank}, graph.Init{}, tags...)
	x = (&Builder{c.b, c}).Dropout(name+"lora_dropout", x, l.Dropout)
	low := ops.ScaleBy(c.b, c.matmul(x, a, true), l.Scale())
	return ops.Add(c.b, y, c.matmul(low, b, true))
}

// checkTargets refuses a pattern that is the name of nothing.
func (c *context) checkTargets() {
	l := c.spec.LoRA
	if l == nil && c.spec.Frozen.Stored() && c.training {
		c.fail("its matrices are stored as %v and do not train: train an adapter beside them, by LoRA", c.spec.Frozen)
	}
	if l == nil || c.b.Err() != nil {
		return
	}
	if len(l.Targets) == 0 {
		c.b.Fail(fmt.Errorf("%w.targets: names nothing: give the names of layers or projections, such as %s", ErrAdapt, someOf(c.products)))
	}
	if i := slices.Index(c.hit, false); i >= 0 {
		c.b.Fail(fmt.Errorf("%w.targets: %q is the name of no dense layer or projection with a weight of its own: there are %s", ErrAdapt, l.Targets[i], someOf(c.products)))
	}
}

// someOf lists products, for errors.
func someOf(names []string) string {
	const most = 12
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// trainable are the variables that an optimizer may change.
func (c *context) trainable() []*graph.Value {
	if c.spec.LoRA == nil {
		return c.vars
	}
	return slices.DeleteFunc(slices.Clone(c.vars), func(v *graph.Value) bool { return v.Tagged(graph.BaseTag) })
}
