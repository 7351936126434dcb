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
	Context int // most tokens of a text that the model sees at once; its caches have room for them
	Rows    int // most tokens of a text that one step reads; 0 means ChunkRows, or Context if that is less
	Texts   int // texts for which the caches have room; 0: 1
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

// texts is the number of texts.
func (o GeneratorOptions) texts() int { return max(1, o.Texts) }

// steps are the numbers of texts of which a step reads one token each, in ascending order: 1, 2,
// 4, and so on, and all.
func (o GeneratorOptions) steps() (sizes []int) {
	for n := 1; n < o.texts(); n *= 2 {
		sizes = append(sizes, n)
	}
	return append(sizes, o.texts())
}

// caches names the caches of the texts. Models of one context share them.
func (o GeneratorOptions) caches() string { return fmt.Sprintf("texts of %d", o.Context) }

// GeneratorGraph is the graph of the chunks by which a generator reads a text.
func GeneratorGraph(s models.Spec, o GeneratorOptions, stop func() error) (*graph.Graph, error) {
	return o.graph(s, 1, o.rows(), stop)
}

// graph is the graph of chunks of so many texts, each of so many tokens.
func (o GeneratorOptions) graph(s models.Spec, texts, rows int, stop func() error) (*graph.Graph, error) {
	return models.Generate(s, models.GenerateSize{Texts: texts, Rows: rows, Places: o.texts(), Context: o.Context, Stop: stop})
}

// GeneratorPlans are the plans of a generator's steps that take the most memory, for a model
// that is cut already: of a chunk, and, of several texts, of a token of each.
func GeneratorPlans(m Model, o GeneratorOptions, stop func() error) (list []*partition.Plan, err error) {
	sizes := [][2]int{{1, o.rows()}}
	if o.texts() > 1 {
		sizes = append(sizes, [2]int{o.texts(), 1})
	}
	for _, z := range sizes {
		p, err := o.plan(m, z[0], z[1], stop)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// plan cuts the graph of chunks of so many texts, each of so many tokens.
func (o GeneratorOptions) plan(m Model, texts, rows int, stop func() error) (*partition.Plan, error) {
	g, err := o.graph(m.Spec, texts, rows, stop)
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

// Generator continues texts. The keys and values of the tokens that it has read are in
// caches on the devices, next to the weights; each step copies in token ids and a few
// numbers, and copies out one token id for each text. A text is named by its place in the
// caches, from 0 on.
type Generator struct {
	rt     *executor.Runtime
	model  Model
	opt    GeneratorOptions
	name   string    // of the programs
	read   *reader   // of chunks of a text
	decode []*reader // of a token of each of steps texts; nil until it is needed
	steps  []int
	texts  []written
	held   int64
	picked []int32 // what the newest step gave
}

// written is a text under way.
type written struct {
	position int // tokens in the caches
	shaping  [2]float32
	penalty  float32
	choice   [3]int32
}

// Turn is a step of one of several texts: it reads a token and gives the one that follows.
type Turn struct {
	Text   int   // its place
	Token  int32 // the token that is read
	Number int   // of the token that follows in the text, which selects its random number

	Next int32 // the token that follows
	Err  error // a [device.NonFiniteError], of this text alone
}

// reader is a program that reads up to rows tokens of some texts, with the memory that
// feeds it.
type reader struct {
	program            *executor.Program
	texts, rows        int
	logits             *graph.Value
	batch              executor.Batch
	pinned             []device.HostBuffer
	tokens, extent, at []int32 // views of pinned, as are those below
	choice             []int32
	shaping, penalty   []float32
	one                [1]int32 // the token of a text
}

// NewGenerator compiles the steps that read a text, on the first group of devices that the
// model has. Steps that read a token of several texts are compiled when they are first needed.
// Tokens are chosen as by the zero value of Sampling with TopP 1, until Choose says otherwise.
func NewGenerator(ctx context.Context, rt *executor.Runtime, m Model, o GeneratorOptions) (*Generator, error) {
	g := &Generator{rt: rt, model: m, opt: o, name: "generate", steps: o.steps(), decode: make([]*reader, len(o.steps())), texts: make([]written, o.texts())}
	for i := range g.texts {
		g.Choose(i, Sampling{TopP: 1})
	}
	var err error
	if g.read, err = g.load(ctx, g.name+".read", 1, o.rows()); err == nil {
		_, err = g.decoder(ctx, 1)
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// decoder is the reader of a token of each of so many texts, and of no more than it must.
func (g *Generator) decoder(ctx context.Context, texts int) (r *reader, err error) {
	for i, n := range g.steps {
		if n < texts {
			continue
		}
		if g.decode[i] == nil {
			name := g.name
			if n > 1 {
				name = fmt.Sprintf("%s%d", g.name, n)
			}
			g.decode[i], err = g.load(ctx, name, n, 1)
		}
		return g.decode[i], err
	}
	return nil, fmt.Errorf("BUG: %d texts are read at once, with room for %d", texts, g.opt.texts())
}

// Programs is the number of programs that are compiled.
func (g *Generator) Programs() (n int) {
	for _, r := range g.decode {
		if r != nil {
			n++
		}
	}
	return n + 1 // read
}

// load compiles the steps that read up to rows tokens of so many texts.
func (g *Generator) load(ctx context.Context, net string, texts, rows int) (*reader, error) {
	stop := func() error { return context.Cause(ctx) }
	m := g.model
	plan, err := g.opt.plan(m, texts, rows, stop)
	if err != nil {
		return nil, err
	}
	p, err := g.rt.Load(executor.LoadOptions{Net: m.net(net), Caches: g.opt.caches(), Adapter: m.Adapter, Full: plan, Fetch: true, OpByOp: m.OpByOp, CheckFinite: m.OpByOp, Beside: m.Beside, Stop: stop})
	if err != nil {
		return nil, err
	}
	r := &reader{program: p, texts: texts, rows: rows, logits: plan.Graph.Find(models.GenerateToken).Node.In[0], batch: executor.Batch{Samples: texts}}
	if err := g.feed(r, g.rt.Devices[plan.Stages[0].Device]); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// feed allocates the memory of a reader's inputs, from which dev copies fastest.
func (g *Generator) feed(r *reader, dev device.Device) error {
	ints := map[string]*[]int32{models.InputName: &r.tokens, models.ExtentName: &r.extent, models.SampleAtName: &r.at, models.ChoiceName: &r.choice}
	floats := map[string]*[]float32{models.ShapingName: &r.shaping, models.PenaltyName: &r.penalty}
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
		if view := ints[v.Name]; view != nil {
			*view = shape.View[int32](hb.Bytes())
			continue
		}
		*floats[v.Name] = shape.View[float32](hb.Bytes())
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
	err := g.read.close()
	for _, r := range g.decode {
		err = errors.Join(err, r.close())
	}
	g.rt.Residency.ReleaseHost(g.held)
	g.held = 0
	return err
}

// InitFrom gives the variables their contents: see [executor.Program.InitFrom]. Caches
// begin with zeros.
func (g *Generator) InitFrom(ctx context.Context, c executor.Contents) error {
	write := c.Write
	c.Write = func(v *graph.Value, dst []byte) error {
		if v.Role == graph.Cache {
			clear(dst)
			return nil
		}
		return write(v, dst)
	}
	return g.read.program.InitFrom(ctx, c)
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
	return nil
}

// Choose has tokens of a text chosen by s from the next step on.
func (g *Generator) Choose(text int, s Sampling) {
	key := rng.Named(s.Seed, models.GenerateToken)
	t := &g.texts[text]
	t.shaping = [2]float32{float32(s.Temperature), float32(s.TopP)}
	t.penalty = float32(cmp.Or(s.RepetitionPenalty, 1))
	t.choice = [3]int32{int32(s.TopK), int32(key.Lo), int32(key.Hi)}
}

// Forget empties the caches of a text: the next tokens begin another.
func (g *Generator) Forget(text int) { g.texts[text].position = 0 }

// Room is the number of tokens for which the caches of a text have room.
func (g *Generator) Room(text int) int { return g.opt.Context - g.texts[text].position }

// Append reads tokens of a text, at least one and at most Room, behind those that were read
// before, and returns the token that follows. number is that token's number in the text:
// it selects the random number by which the token is chosen. Steps that began are waited
// for even if ctx ends meanwhile. With one token, Append allocates nothing.
func (g *Generator) Append(ctx context.Context, text int, tokens []int32, number int) (next int32, err error) {
	if len(tokens) == 0 || len(tokens) > g.Room(text) {
		return 0, fmt.Errorf("BUG: %d tokens are read, with room for %d", len(tokens), g.Room(text))
	}
	for len(tokens) > 0 {
		if err := g.ready(ctx); err != nil {
			return 0, err
		}
		r := g.read
		if len(tokens) == 1 {
			r = g.decode[0]
		}
		n := min(len(tokens), r.rows)
		g.put(r, 0, text, tokens[:n], number)
		if err := g.step(r, n == len(tokens)); err != nil {
			return 0, err
		}
		tokens = tokens[n:]
		g.texts[text].position += n
	}
	return g.next(g.read, 0)
}

// Step reads a token of each of some texts, which are different ones with Room for it. Each gets
// the token that it would get alone, to the bit, unless products go through AMX. The weights are
// read once for all. Steps of as many texts as before allocate nothing. As Append, it waits for a
// step that began.
func (g *Generator) Step(ctx context.Context, turns []Turn) error {
	if err := g.ready(ctx); err != nil {
		return err
	}
	r, err := g.decoder(ctx, len(turns))
	if err != nil {
		return err
	}
	for i := range r.texts {
		t := &turns[0] // fills the step up
		if i < len(turns) {
			t = &turns[i]
		}
		r.one[0] = t.Token
		g.put(r, i, t.Text, r.one[:], t.Number)
	}
	if err := g.step(r, true); err != nil {
		return err
	}
	for i := range turns {
		turns[i].Next, turns[i].Err = g.next(r, i)
	}
	for i := range turns { // after all that may panic: the step can then be taken again
		g.texts[turns[i].Text].position++
	}
	return nil
}

// ready waits until a step may begin.
func (g *Generator) ready(ctx context.Context) error {
	return cmp.Or(context.Cause(ctx), g.rt.Rest(ctx))
}

// put writes the inputs of text i of a step.
func (g *Generator) put(r *reader, i, text int, tokens []int32, number int) {
	t, row := &g.texts[text], r.tokens[i*r.rows:][:r.rows]
	clear(row[copy(row, tokens):])
	r.at[i] = int32(number)
	r.extent[3*i], r.extent[3*i+1], r.extent[3*i+2] = int32(t.position), int32(len(tokens)), int32(text)
	copy(r.shaping[2*i:], t.shaping[:])
	copy(r.choice[3*i:], t.choice[:])
	r.penalty[i] = t.penalty
}

// step reads what was put. Only if the tokens are wanted, they are pulled back.
func (g *Generator) step(r *reader, wanted bool) error {
	ctx := context.Background() // the memory that feeds the step is in use until it ends
	ticket, err := r.program.Step(ctx, r.batch)
	if err == nil {
		err = r.program.Wait(ctx, ticket)
	}
	if err != nil {
		return err
	}
	out, err := r.program.Output(models.GenerateToken, r.texts, 0)
	if err != nil {
		return err
	}
	if wanted {
		if err := g.pull(ctx, out); err != nil {
			return err
		}
	}
	return g.rt.Residency.Drop(out)
}

// pull copies token ids to the host.
func (g *Generator) pull(ctx context.Context, out *residency.Tensor) error {
	if err := g.rt.Residency.PullBack(ctx, ledger.Fetch, out); err != nil {
		return err
	}
	return g.rt.Residency.View(out, func(b []byte) error {
		g.picked = append(g.picked[:0], shape.View[int32](b)...)
		return nil
	})
}

// next is the token that the newest step gave text i, by a reader.
func (g *Generator) next(r *reader, i int) (int32, error) {
	id := g.picked[i]
	if id < 0 { // see ops.Sample
		return 0, &device.NonFiniteError{Node: r.logits.Node, Value: r.logits.Name, Index: int(-1 - id)}
	}
	return id, nil
}
