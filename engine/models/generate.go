package models

import (
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Names of the values of a graph of [Generate]. Its input has the chunk's tokens.
const (
	ExtentName     = "extent"           // i32[1,2]: position of the chunk's first row, and the rows that count
	SampleAtName   = "sample_at"        // i32[1]: number of the token that is sampled, for its random number
	ShapingName    = "sampling/shaping" // f32[2], a variable: see [ops.Sample]
	ChoiceName     = "sampling/choice"  // i32[3], likewise
	GenerateToken  = "token"            // i32[1]: the sampled token
	GenerateLogits = "logits"           // f32[1,1,V], with GenerateSize.Logits
)

// GenerateSize describes the chunks of a generation.
type GenerateSize struct {
	Rows    int  // most tokens of a chunk: 1 to decode, more to read a prompt
	Context int  // positions that the caches have
	Logits  bool // the logits are an output too

	// Stop is asked while the graph is built, which ends with its error. Nil means
	// never.
	Stop func() error
}

// Generate builds the graph that reads a chunk of a text, keeps the keys and values of
// its attention in caches, and samples the token after it. Graphs for chunks of several
// sizes share parameters and caches by name.
//
// Layers that mix positions have a form that reads the caches; layers that work on each
// position alone are as ever; others are refused. Behind the last layer that mixes
// positions, only the last token's row goes on.
func Generate(s Spec, z GenerateSize) (*graph.Graph, error) {
	s.Input.Shape = shape.Of(z.Rows)
	c := newContext("generate", s, 1, 1)
	c.b.Stop(z.Stop)
	c.chunk = &chunk{GenerateSize: z}
	logits := c.forward()
	c.sampled(logits)
	return c.graph()
}

// Positions is the most positions that the model tells apart: the least context of its
// positional embeddings. 0 means that there is no limit.
func (s Spec) Positions() int { return positionsOf(s.Layers) }

func positionsOf(layers []Layer) (least int) {
	for _, l := range layers {
		for _, n := range []int{l.Context, positionsOf(l.Body)} {
			if n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
	}
	return least
}

// chunk is the state of building a graph that generates.
type chunk struct {
	GenerateSize
	extent *graph.Value // nil until a layer needs it
}

// cachedForms are the layer types that mix positions or tell them apart, with their forms
// for generating.
var cachedForms = map[string]func(c *context, l *Layer, x *graph.Value) *graph.Value{
	"attention": cachedAttention, "positional_embedding": cachedPositional,
}

// builtInPositionwise are the built-in layer types that work on each position alone.
// Those with a body do if its layers do. positionwise has those of a program too, which
// [RegisterLayer] adds.
var (
	builtInPositionwise = merged(setOf("dense", "embedding", "layernorm", "dropout", "softmax", "log_softmax", "affine", "residual"),
		setOf(slices.Collect(maps.Keys(activations))...))
	positionwise = maps.Clone(builtInPositionwise)
)

// setOf maps names to true.
func setOf(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// generated applies the form for generating of a layer.
func (c *context) generated(l *Layer, t layerType, x *graph.Value) *graph.Value {
	switch f := cachedForms[l.Type]; {
	case f != nil:
		return f(c, l, x)
	case positionwise[l.Type]:
		return t.build(c, l, x)
	}
	c.fail("a model with this layer generates no text: it must work on each position alone, or be attention or positional_embedding")
	return x
}

// firstAfter is the index of the first of the last layers that surely work on each
// position alone: built-in ones without a cached form, also in their bodies.
func firstAfter(layers []Layer) int {
	for i, l := range slices.Backward(layers) {
		if !builtInPositionwise[l.Type] || firstAfter(l.Body) > 0 {
			return i + 1
		}
	}
	return 0
}

// chunkExtent is the chunk's extent, an input.
func (c *context) chunkExtent() *graph.Value {
	if c.chunk.extent == nil {
		c.chunk.extent = c.b.Input(ExtentName, shape.I32(1, 2))
	}
	return c.chunk.extent
}

// lastRow is the last row of x[1,T,D] that counts, or x where there is one.
func (c *context) lastRow(x *graph.Value) *graph.Value {
	if s := x.Meta.Shape; s.Rank() != 3 || s[1] == 1 || x.Meta.DType != shape.Float32 {
		return x
	}
	return c.b.One(ops.LastRow{}, x, c.chunkExtent())
}

// narrowed is lastRow between layers.
func (c *context) narrowed(x *graph.Value) *graph.Value {
	if c.b.Err() != nil || c.lastBlock == "" {
		return x
	}
	defer c.b.In(c.endLayer("last_row", c.lastBlock+".last_row"))()
	return c.lastRow(x)
}

// sampled appends the choice of a token.
func (c *context) sampled(logits *graph.Value) {
	if c.b.Err() != nil {
		return
	}
	defer c.b.In(c.endLayer("sample", GenerateToken))()
	logits = c.lastRow(logits)
	s := logits.Meta.Shape
	if logits.Meta.DType != shape.Float32 || s.Rank() != 3 || s[1] != 1 || s[2] < max(1, c.spec.Tokens) {
		c.fail("the model gives %v for each token: it generates only if its last layer gives a number for each of %d tokens", sample(logits), c.spec.Tokens)
		return
	}
	shaping := c.b.Var(ShapingName, shape.F32(2), graph.Cache, graph.Init{})
	choice := c.b.Var(ChoiceName, shape.I32(3), graph.Cache, graph.Init{})
	at := c.b.Input(SampleAtName, shape.I32(1))
	c.b.Output(GenerateToken, c.b.One(ops.Sample{Tokens: c.spec.Tokens}, logits, at, shaping, choice))
	if c.chunk.Logits {
		c.b.Output(GenerateLogits, logits)
	}
}

// cachedPositional adds the learned row of each position.
func cachedPositional(c *context, l *Layer, x *graph.Value) *graph.Value {
	s := x.Meta.Shape
	if c.chunk.Context > l.Context {
		c.fail("%d positions are to be generated, but its context is %d: generate at most that many", c.chunk.Context, l.Context)
		return x
	}
	table := c.param("weight", []int{l.Context, s[2]}, tableInit(l), "weight", "embedding")
	at := c.b.One(ops.Positions{T: s[1]}, c.chunkExtent())
	return ops.Add(c.b, x, ops.EmbeddingOf(c.b, table, at))
}

// cachedAttention is attention over the cache and the chunk. The chunk's keys and values
// are written into the cache when all is computed.
func cachedAttention(c *context, l *Layer, x *graph.Value) *graph.Value {
	return attended(c, l, x, func(qkv *graph.Value) *graph.Value {
		dims := []int{1, c.chunk.Context, x.Meta.Shape[2]}
		keys := c.variable("cache.keys", dims, graph.Cache, graph.Init{})
		values := c.variable("cache.values", dims, graph.Cache, graph.Init{})
		y := c.b.One(ops.CachedAttention{Heads: l.Heads}, qkv, keys, values, c.chunkExtent())
		defer c.b.InPhase(graph.Update)()
		c.b.Assign(keys, c.b.One(ops.CacheWrite{Part: 1}, keys, qkv, c.chunkExtent()))
		c.b.Assign(values, c.b.One(ops.CacheWrite{Part: 2}, values, qkv, c.chunkExtent()))
		return y
	})
}
