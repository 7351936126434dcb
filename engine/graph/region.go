package graph

import "slices"

// Region appends the nodes that body appends. Where they read a value from outside, they
// read its stand-in: the result of enter, which is called once for each such value.
// Variables and inputs are always from outside, wherever they are declared. Regions nest.
func (b *Builder) Region(enter func(outside *Value) *Value, body func()) {
	b.within(&region{enter: enter, branch: b.region != nil && b.region.branch}, body)
}

// Branch is Region for nodes whose values may go unused: they, and their gradients, are
// Conditional.
func (b *Builder) Branch(enter func(outside *Value) *Value, body func()) {
	b.within(&region{enter: enter, branch: true}, body)
}

func (b *Builder) within(r *region, body func()) {
	r.outer, r.first, r.ins = b.region, len(b.g.Values), map[*Value]*Value{}
	b.region = r
	defer func() { b.region = r.outer }()
	body()
}

// conditional reports whether nodes to come are of a branch, or differentiate nodes of
// one.
func (b *Builder) conditional() bool {
	return b.region != nil && b.region.branch || b.of != nil && b.of.Conditional
}

// inside is in with stand-ins for the values from outside the current region.
func (b *Builder) inside(in []*Value) []*Value {
	r := b.region
	if r == nil || b.err != nil {
		return in
	}
	in = slices.Clone(in)
	for i, v := range in {
		if v.Kind == Computed && v.ID >= r.first {
			continue
		}
		if r.ins[v] == nil {
			b.region = r.outer // the nodes of enter are not of the region
			r.ins[v] = r.enter(v)
			b.region = r
		}
		in[i] = r.ins[v]
	}
	return in
}

// SumGradients sets how Gradients sums those of v, a computed value. By default it adds
// one after the other.
func (b *Builder) SumGradients(v *Value, sum GradientSum) {
	if b.sums == nil {
		b.sums = map[*Value]GradientSum{}
	}
	b.sums[v] = sum
}
