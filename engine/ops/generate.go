package ops

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// generateOps are the rows of the op table that are in this file.
var generateOps = []graph.Op{CachedAttention{}, CacheWrite{}, StateWrite{}, Positions{}, LastRow{}, RepetitionPenalty{}, SeenWrite{}, Sample{}}

// The ops of this file generate sequences a chunk at a time. They have no gradient. A
// chunk has T rows for each of B sequences. The first ones of a sequence count, the rest
// fill the chunk up. Its extent i32[B,3] has, for each sequence, the position of the
// chunk's first row in the sequence, the number of rows that count, at least 1, and the
// sequence's place in the caches. A cache f32[P,C,D] has, for each of P places, one row for
// each of C positions. A chunk may have a sequence twice, if both are equal.

// CachedAttention is a causal [Attention] of a chunk: from (qkv f32[B,T,(Heads+2G)S], keys
// f32[P,C,G*S], values f32[P,C,G*S], extent) to y [B,T,Heads*S]. A row sees the cached rows
// before the chunk's first position, and the chunk's rows up to itself; with a Window, the
// last so many of these. Rows that do not count are 0.
//
// With BF16 it rounds as Attention does, but not the cached rows: a [CacheWrite] with BF16 wrote
// them rounded.
type CachedAttention struct {
	Heads, KVHeads, Window int
	BF16                   bool
}

// Kind is "cached_attention".
func (o CachedAttention) Kind() string { return "cached_attention" }

// Whole is the op over all positions that this one is a chunk of.
func (o CachedAttention) Whole() Attention {
	return Attention{Heads: o.Heads, KVHeads: o.KVHeads, Window: o.Window, BF16: o.BF16}
}

// Infer checks the caches against the width of qkv.
func (o CachedAttention) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 4); err != nil {
		return nil, err
	}
	whole := o.Whole()
	y, _, err := whole.outputs(in[:1], 1)
	if err != nil {
		return nil, err
	}
	if err := isCache("keys", in[1], whole.Groups()*whole.Size(in[0].Shape[2])); err != nil {
		return nil, err
	}
	if err := expect("values", in[2], in[1]); err != nil {
		return nil, err
	}
	return one(y), isExtent(in[3], y.Shape[0])
}

// Grad fails: see onlyGenerates.
func (o CachedAttention) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return onlyGenerates(b, n)
}

// Cost assumes a full cache: two products, and twelve operations per score.
func (o CachedAttention) Cost(in, out []shape.Meta) graph.Cost {
	seen := in[1].Shape[1]
	if o.Window > 0 {
		seen = min(seen, o.Window)
	}
	return perElem(4*out[0].Shape[2]+12*o.Heads, out[0].Shape[0]*out[0].Shape[1]*seen, in, out)
}

// CacheWrite writes a chunk's rows into a cache, at their positions: from (cache
// f32[P,C,D], qkv f32[B,T,W], extent) to the cache. Part selects the keys (1) or values (2)
// of qkv, its last 2D numbers but D, or its last D. Rows that do not count are not written. With
// BF16 numbers are rounded to bfloat16 ([RoundBF16]).
type CacheWrite struct {
	Part int
	BF16 bool
}

// Kind is "cache_write".
func (o CacheWrite) Kind() string { return "cache_write" }

// Infer checks the cache against the width of qkv.
func (o CacheWrite) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	if o.Part < 1 || o.Part > 2 {
		return nil, fmt.Errorf("part %d: expected 1 (keys) or 2 (values)", o.Part)
	}
	if in[0].Shape.Rank() != 3 {
		return nil, fmt.Errorf("cache is %v, expected f32 [places, positions, width]", in[0])
	}
	if in[1].DType != shape.Float32 || in[1].Shape.Rank() != 3 || in[1].Shape[2] < 3*in[0].Shape[2] {
		return nil, fmt.Errorf("input is %v, expected f32 [sequences, rows, queries+keys+values] with keys of width %d", in[1], in[0].Shape[2])
	}
	if err := isCache("cache", in[0], in[0].Shape[2]); err != nil {
		return nil, err
	}
	return one(in[0]), isExtent(in[2], in[1].Shape[0])
}

// From is where the part begins in a row of qkv of so many numbers, of which width are
// keys and as many values.
func (o CacheWrite) From(qkv, width int) int { return qkv - (3-o.Part)*width }

// Grad is none: it records.
func (o CacheWrite) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is the rows written.
func (o CacheWrite) Cost(in, _ []shape.Meta) graph.Cost {
	rows := shape.F32(in[1].Shape[0], in[1].Shape[1], in[0].Shape[2])
	return graph.Cost{Flops: 1, Bytes: rows.Bytes() * 2}
}

// Alias updates the cache in place.
func (o CacheWrite) Alias() []int { return []int{0} }

// StateWrite keeps the state that a chunk ends with: from (cache f32[P,D], states
// f32[B,T,D], extent) to the cache. The state of the last row that counts goes to the
// sequence's place.
type StateWrite struct{}

// Kind is "state_write".
func (o StateWrite) Kind() string { return "state_write" }

// Infer checks the cache against the width of states.
func (o StateWrite) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	if in[1].DType != shape.Float32 || in[1].Shape.Rank() != 3 {
		return nil, fmt.Errorf("states are %v, expected f32 [sequences, rows, width]", in[1])
	}
	if in[0].Shape.Rank() != 2 {
		return nil, fmt.Errorf("cache is %v, expected f32 [places, width]", in[0])
	}
	s := in[1].Shape
	return one(in[0]), errors.Join(expect("cache", in[0], shape.F32(in[0].Shape[0], s[2])), isExtent(in[2], s[0]))
}

// Grad is none: it records.
func (o StateWrite) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is the rows written.
func (o StateWrite) Cost(in, _ []shape.Meta) graph.Cost {
	return graph.Cost{Flops: 1, Bytes: shape.F32(in[1].Shape[0], in[1].Shape[2]).Bytes() * 2}
}

// Alias updates the cache in place.
func (o StateWrite) Alias() []int { return []int{0} }

// Positions are the positions of a chunk's T rows: i32[B,T] from its extent. Those of
// rows that do not count are 0.
type Positions struct{ T int }

// Kind is "positions".
func (o Positions) Kind() string { return "positions" }

// Infer wants an extent.
func (o Positions) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if o.T < 1 {
		return nil, fmt.Errorf("chunks of %d rows: give each at least 1", o.T)
	}
	if in[0].Shape.Rank() != 2 {
		return nil, fmt.Errorf("the extent is %v, expected i32[sequences,3]", in[0])
	}
	return one(shape.I32(in[0].Shape[0], o.T)), isExtent(in[0], in[0].Shape[0])
}

// Grad is none: positions are whole numbers.
func (o Positions) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is an addition per row.
func (o Positions) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, out[0].Elems(), in, out) }

// LastRow is the last row of each sequence's chunk that counts: [B,1,D] from (x
// f32[B,T,D], extent).
type LastRow struct{}

// Kind is "last_row".
func (o LastRow) Kind() string { return "last_row" }

// Infer keeps one row.
func (o LastRow) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if in[0].DType != shape.Float32 || in[0].Shape.Rank() != 3 {
		return nil, fmt.Errorf("input is %v, expected f32 [sequences, rows, width]", in[0])
	}
	s := in[0].Shape
	return one(shape.F32(s[0], 1, s[2])), isExtent(in[1], s[0])
}

// Grad fails: see onlyGenerates.
func (o LastRow) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return onlyGenerates(b, n)
}

// Cost counts the rows that are copied, not the rest of x.
func (o LastRow) Cost(in, out []shape.Meta) graph.Cost {
	return graph.Cost{Flops: 1, Bytes: in[1].Bytes() + 2*out[0].Bytes()}
}

// RepetitionPenalty makes the tokens less likely that a text has already (Keskar et al.,
// "CTRL: A Conditional Transformer Language Model for Controllable Generation", 2019,
// section 4.1): from (logits f32[B,…,V] with one row for each sequence, seen i32[P,V],
// tokens i32[B,T], extent, penalty f32[B]) to the logits.
//
// A text has the tokens of the chunk that count, and those of which seen is not 0, unless
// the chunk begins at position 0. Of these, a positive logit is divided by the sequence's penalty, and
// another multiplied with it. Of tokens, ids outside [0,V) are passed over.
type RepetitionPenalty struct{}

// Kind is "repetition_penalty".
func (o RepetitionPenalty) Kind() string { return "repetition_penalty" }

// Infer wants one row of logits, and a number for each of them, for each sequence.
func (o RepetitionPenalty) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 5); err != nil {
		return nil, err
	}
	if err := isLogits(in[0]); err != nil {
		return nil, err
	}
	s := in[0].Shape
	return one(in[0]), errors.Join(isSeen(in[1], s.Dim(-1)), isChunk(in[2], in[3], s[0]), expect("penalty", in[4], shape.F32(s[0])))
}

// Grad fails: see onlyGenerates.
func (o RepetitionPenalty) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return onlyGenerates(b, n)
}

// Cost is a few operations per logit.
func (o RepetitionPenalty) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(3, in[0].Elems(), in, out)
}

// Alias updates the logits in place.
func (o RepetitionPenalty) Alias() []int { return []int{0} }

// SeenWrite notes the tokens of a chunk: from (seen i32[P,V], tokens i32[B,T], extent) to
// seen, which is 1 for the tokens that a text has, see [RepetitionPenalty], and 0 for others.
type SeenWrite struct{}

// Kind is "seen_write".
func (o SeenWrite) Kind() string { return "seen_write" }

// Infer wants a chunk of tokens for each sequence.
func (o SeenWrite) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	if in[0].Shape.Rank() != 2 || in[1].Shape.Rank() != 2 {
		return nil, fmt.Errorf("seen is %v, and tokens are %v: expected i32[places,tokens] and i32[sequences,rows]", in[0], in[1])
	}
	return one(in[0]), errors.Join(isSeen(in[0], in[0].Shape[1]), isChunk(in[1], in[2], in[1].Shape[0]))
}

// Grad is none: it records.
func (o SeenWrite) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is the tokens that are noted.
func (o SeenWrite) Cost(in, _ []shape.Meta) graph.Cost {
	return graph.Cost{Flops: 1, Bytes: 2 * in[1].Bytes()}
}

// Alias updates seen in place.
func (o SeenWrite) Alias() []int { return []int{0} }

// Sample draws a token for each sequence: i32[B] from (logits f32[B,…,V] with one row
// for each sequence, at i32[B], shaping f32[B,2], choice i32[B,3]).
//
// shaping is a sequence's temperature and top-p, choice is its top-k and the two words of a
// [rng.Key]. Tokens are ranked by logit, equal ones by id, the lowest first. With a
// temperature of 0 the first one is taken. Otherwise the probabilities are the softmax
// of logits/temperature over the first top-k tokens (0: all). Of these, top-p (1: all)
// leaves those before which the probabilities of better ones sum to less than it. One of
// the tokens left is drawn in proportion, going through them in order of id, by the
// number u in [0,1) that the first two words of Key.At(0, at[b]) make: the first token
// with which the sum of probabilities is above u.
//
// A sequence with logits that are NaN or +Inf, or all -Inf, gives -1-i in place of a token,
// where i is the index of the first of them; others are not concerned. Of the V logits, those of
// ids from Tokens on do not count, if that is not 0: a model may have room for more
// tokens than there are.
type Sample struct{ Tokens int }

// Count is the number of logits of V that count.
func (o Sample) Count(v int) int {
	if o.Tokens > 0 {
		return min(o.Tokens, v)
	}
	return v
}

// Kind is "sample".
func (o Sample) Kind() string { return "sample" }

// Infer wants one row of logits for each sequence.
func (o Sample) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 4); err != nil {
		return nil, err
	}
	if err := isLogits(in[0]); err != nil {
		return nil, err
	}
	s := in[0].Shape
	return one(shape.I32(s[0])), errors.Join(expect("at", in[1], shape.I32(s[0])),
		expect("shaping", in[2], shape.F32(s[0], 2)), expect("choice", in[3], shape.I32(s[0], 3)))
}

// Grad is none: a token is a whole number.
func (o Sample) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost counts the exponential as about ten operations.
func (o Sample) Cost(in, out []shape.Meta) graph.Cost { return perElem(12, in[0].Elems(), in, out) }

// Extent is that of a sequence's chunk.
type Extent struct{ Position, Count, Place int }

// ExtentOf is the extent of sequence b.
func ExtentOf(extents []int32, b int) Extent {
	e := extents[3*b:][:3]
	return Extent{int(e[0]), int(e[1]), int(e[2])}
}

// Check fails unless the extent is within the chunk's rows, and the positions and places
// of the cache.
func (e Extent) Check(rows, positions, places int) error {
	if e.Count < 1 || e.Count > rows || e.Position < 0 || e.Position+e.Count > positions {
		return fmt.Errorf("%d rows from position %d on: a chunk has 1 to %d, and the cache has %d positions", e.Count, e.Position, rows, positions)
	}
	if e.Place < 0 || e.Place >= places {
		return fmt.Errorf("place %d: the cache has %d", e.Place, places)
	}
	return nil
}

// isLogits checks for one row of logits for each sequence.
func isLogits(m shape.Meta) error {
	if err := isFloat("logits", m, 2); err != nil {
		return err
	}
	if s := m.Shape; s.Dim(-1) == 0 || s[0]*s.Dim(-1) != s.Elems() {
		return fmt.Errorf("logits are %v, expected one row of at least one for each sequence", m)
	}
	return nil
}

// isChunk checks the tokens of a chunk, and its extent.
func isChunk(tokens, extent shape.Meta, sequences int) error {
	if tokens.Shape.Rank() != 2 {
		return fmt.Errorf("tokens are %v, expected i32[sequences,rows]", tokens)
	}
	return errors.Join(expect("tokens", tokens, shape.I32(sequences, tokens.Shape[1])), isExtent(extent, sequences))
}

// isCache checks one cache.
func isCache(what string, m shape.Meta, width int) error {
	if m.Shape.Rank() != 3 {
		return fmt.Errorf("%s is %v, expected f32 [places, positions, width]", what, m)
	}
	return expect(what, m, shape.F32(m.Shape[0], m.Shape[1], width))
}

// isSeen checks the tokens that texts have.
func isSeen(m shape.Meta, tokens int) error {
	if m.Shape.Rank() != 2 {
		return fmt.Errorf("seen is %v, expected i32[places,tokens]", m)
	}
	return expect("seen", m, shape.I32(m.Shape[0], tokens))
}

// isExtent checks the extent of a chunk.
func isExtent(m shape.Meta, sequences int) error {
	return expect("extent", m, shape.I32(sequences, 3))
}

// onlyGenerates is the gradient of ops that compute on a cache: the builder fails.
func onlyGenerates(b *graph.Builder, n *graph.Node) []*graph.Value {
	b.Fail(fmt.Errorf("%w: %s is for generating; train with the op that it stands for", ErrNoGradient, n.Op.Kind()))
	return noGrad(n)
}
