package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// GeneratorOptions describes a generator.
type GeneratorOptions struct {
	Context int // most tokens that the model sees at once; its caches have room for them
	Rows    int // most tokens that one step reads; 0 means ChunkRows, or Context if that is less
	Text    int // tells the texts apart that one runtime generates at once
}

// ChunkRows is the number of tokens of a chunk, unless GeneratorOptions.Rows says
// otherwise. Of as many, products take most of the time; more would take more memory.
const ChunkRows = 64

// rows is the number of tokens of a chunk.
func (o GeneratorOptions) rows() int {
	if o.Rows > 0 {
		return min(o.Rows, o.Context)
	}
	return min(ChunkRows, o.Context)
}

// caches names the caches of a text. Models of one context share them.
func (o GeneratorOptions) caches() string {
	if o.Text == 0 {
		return ""
	}
	return fmt.Sprintf("text%d of %d", o.Text, o.Context)
}

// GeneratorGraph is the graph of the chunks by which a generator reads a text: of its
// steps, these take the most memory.
func GeneratorGraph(s models.Spec, o GeneratorOptions, stop func() error) (*graph.Graph, error) {
	return o.graph(s, o.rows(), stop)
}

// graph is the graph of chunks of so many tokens.
func (o GeneratorOptions) graph(s models.Spec, rows int, stop func() error) (*graph.Graph, error) {
	return models.Generate(s, models.GenerateSize{Rows: rows, Context: o.Context, Stop: stop})
}

// GeneratorPlan is the plan of the GeneratorGraph of a model that is cut already.
func GeneratorPlan(m Model, o GeneratorOptions, stop func() error) (*partition.Plan, error) {
	return o.plan(m, o.rows(), stop)
}

// plan cuts the graph of chunks of so many tokens.
func (o GeneratorOptions) plan(m Model, rows int, stop func() error) (*partition.Plan, error) {
	g, err := o.graph(m.Spec, rows, stop)
	if err != nil {
		return nil, err
	}
	return m.cut(g, 0, stop)
}

// Sampling says how the next token is drawn from the probabilities that the model gives.
type Sampling struct {
	Temperature float64 // divides the logits; 0 takes the likeliest token
	TopK        int     // the likeliest tokens that are left; 0 means all
	TopP        float64 // likely tokens are left until their probabilities sum to it; 1 means all
	Seed        uint64  // of the random numbers

	// RepetitionPenalty lowers the logits of tokens that the caches have: see
	// [ops.RepetitionPenalty]; 0 and 1 mean that they stay.
	RepetitionPenalty float64
}

// Generator continues one text. The keys and values of the tokens that it has read are in
// caches on the devices, next to the weights; each step copies in token ids and a few
// numbers, and copies out one token id.
type Generator struct {
	rt       *executor.Runtime
	read     *reader // of chunks
	decode   *reader // of single tokens
	context  int
	position int // tokens in the caches
	held     int64
	picked   []int32 // the token that the newest step gave
}

// reader is a program that reads up to rows tokens a step, with the memory that feeds it.
type reader struct {
	program            *executor.Program
	rows               int
	batch              executor.Batch
	pinned             []device.HostBuffer
	tokens, extent, at []int32 // views of pinned
}

// NewGenerator compiles the steps of a generator, on the first group of devices that the
// model has.
func NewGenerator(ctx context.Context, rt *executor.Runtime, m Model, o GeneratorOptions) (*Generator, error) {
	g := &Generator{rt: rt, context: o.Context, picked: make([]int32, 0, 1)}
	var err error
	name := "generate"
	if o.Text > 0 {
		name = fmt.Sprintf("generate%d", o.Text)
	}
	if g.read, err = g.load(ctx, m, o, name+".read", o.rows()); err == nil {
		g.decode, err = g.load(ctx, m, o, name, 1)
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// load compiles the steps that read up to rows tokens.
func (g *Generator) load(ctx context.Context, m Model, o GeneratorOptions, net string, rows int) (*reader, error) {
	stop := func() error { return context.Cause(ctx) }
	plan, err := o.plan(m, rows, stop)
	if err != nil {
		return nil, err
	}
	p, err := g.rt.Load(executor.LoadOptions{Net: m.net(net), Caches: o.caches(), Adapter: m.Adapter, Full: plan, Fetch: true, OpByOp: m.OpByOp, CheckFinite: m.OpByOp, Beside: m.Beside, Stop: stop})
	if err != nil {
		return nil, err
	}
	r := &reader{program: p, rows: rows, batch: executor.Batch{Samples: 1}}
	if err := g.feed(r, g.rt.Devices[plan.Stages[0].Device]); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// feed allocates the memory of a reader's inputs, from which dev copies fastest.
func (g *Generator) feed(r *reader, dev device.Device) error {
	views := map[string]*[]int32{models.InputName: &r.tokens, models.ExtentName: &r.extent, models.SampleAtName: &r.at}
	for _, v := range r.program.Inputs() {
		if err := g.rt.Residency.HoldHost(v.Meta.Bytes()); err != nil {
			return err
		}
		g.held += v.Meta.Bytes()
		hb, err := dev.AllocHost(v.Meta.Bytes())
		if err != nil {
			return err
		}
		r.pinned, r.batch.Fields = append(r.pinned, hb), append(r.batch.Fields, hb)
		*views[v.Name] = shape.View[int32](hb.Bytes())
	}
	return nil
}

// close unloads the program and frees the memory that feeds it.
func (r *reader) close() error {
	if r == nil {
		return nil
	}
	err := r.program.Close()
	for _, hb := range r.pinned {
		err = errors.Join(err, hb.Free())
	}
	return err
}

// Close unloads the steps, and frees the caches. The weights stay if another program has
// them.
func (g *Generator) Close() error {
	err := errors.Join(g.read.close(), g.decode.close())
	g.rt.Residency.ReleaseHost(g.held)
	g.held = 0
	return err
}

// InitFrom gives the variables their contents: see [executor.Program.InitFrom]. Caches
// begin with zeros, and tokens are chosen as by the zero value of Sampling with TopP 1.
func (g *Generator) InitFrom(ctx context.Context, c executor.Contents) error {
	write := c.Write
	c.Write = func(v *graph.Value, dst []byte) error {
		if v.Role == graph.Cache {
			clear(dst)
			return nil
		}
		return write(v, dst)
	}
	if err := g.read.program.InitFrom(ctx, c); err != nil {
		return err
	}
	return g.Choose(Sampling{TopP: 1})
}

// Begin readies a generator whose weights another program of the runtime has: it fills
// the caches as InitFrom does.
func (g *Generator) Begin() error {
	for _, v := range g.read.program.Graph().Vars {
		if v.Role != graph.Cache {
			continue
		}
		if err := g.rt.Residency.FillWith(g.read.program.Var(v.Name), func(dst []byte) error { clear(dst); return nil }); err != nil {
			return err
		}
	}
	return g.Choose(Sampling{TopP: 1})
}

// Choose has tokens chosen by s from the next step on.
func (g *Generator) Choose(s Sampling) error {
	key := rng.Named(s.Seed, models.GenerateToken)
	shaping := []float32{float32(s.Temperature), float32(s.TopP)}
	penalty := []float32{float32(cmp.Or(s.RepetitionPenalty, 1))}
	choice := []int32{int32(s.TopK), int32(key.Lo), int32(key.Hi)}
	return errors.Join(
		g.rt.Residency.Fill(g.read.program.Var(models.ShapingName), shape.Bytes(shaping)),
		g.rt.Residency.Fill(g.read.program.Var(models.PenaltyName), shape.Bytes(penalty)),
		g.rt.Residency.Fill(g.read.program.Var(models.ChoiceName), shape.Bytes(choice)))
}

// Forget empties the caches: the next tokens begin a text.
func (g *Generator) Forget() { g.position = 0 }

// Room is the number of tokens for which the caches have room.
func (g *Generator) Room() int { return g.context - g.position }

// Append reads tokens, at least one and at most Room, behind those that were read
// before, and returns the token that follows. number is that token's number in the text:
// it selects the random number by which the token is chosen. Steps that began are waited
// for even if ctx ends meanwhile. With one token, Append allocates nothing.
func (g *Generator) Append(ctx context.Context, tokens []int32, number int) (next int32, err error) {
	if len(tokens) == 0 || len(tokens) > g.Room() {
		return 0, fmt.Errorf("BUG: %d tokens are read, with room for %d", len(tokens), g.Room())
	}
	for len(tokens) > 0 {
		if err := cmp.Or(context.Cause(ctx), g.rt.Rest(ctx)); err != nil {
			return 0, err
		}
		r := g.read
		if len(tokens) == 1 {
			r = g.decode
		}
		n := min(len(tokens), r.rows)
		if next, err = g.step(r, tokens[:n], number, n == len(tokens)); err != nil {
			return 0, err
		}
		tokens, g.position = tokens[n:], g.position+n
	}
	return next, nil
}

// step reads a chunk. Only if that is the last one of the tokens, the token that follows
// is pulled back.
func (g *Generator) step(r *reader, tokens []int32, number int, last bool) (next int32, err error) {
	ctx := context.Background() // the memory that feeds the step is in use until it ends
	copy(r.tokens, tokens)
	clear(r.tokens[len(tokens):])
	r.at[0] = int32(number)
	if r.extent != nil { // a model without attention reads single tokens without it
		r.extent[0], r.extent[1] = int32(g.position), int32(len(tokens))
	}
	ticket, err := r.program.Step(ctx, r.batch)
	if err == nil {
		err = r.program.Wait(ctx, ticket)
	}
	if err != nil {
		return 0, err
	}
	out, err := r.program.Output(models.GenerateToken, 1, 0)
	if err != nil {
		return 0, err
	}
	if last {
		if next, err = g.pull(ctx, out); err != nil {
			return 0, err
		}
	}
	return next, g.rt.Residency.Drop(out)
}

// pull copies a token id to the host.
func (g *Generator) pull(ctx context.Context, out *residency.Tensor) (int32, error) {
	if err := g.rt.Residency.PullBack(ctx, ledger.Fetch, out); err != nil {
		return 0, err
	}
	err := g.rt.Residency.View(out, func(b []byte) error {
		g.picked = append(g.picked[:0], shape.View[int32](b)[0])
		return nil
	})
	if err != nil {
		return 0, err
	}
	return g.picked[0], nil
}
