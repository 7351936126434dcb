package models

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

func newContext(name string, s Spec, microbatches, microbatch int) *context {
	registry.Seal() // the tables are read from now on
	c := &context{
		b: graph.NewBuilder(name, microbatches), spec: s.whole(), microbatch: microbatch,
		byName: map[string]*graph.Value{}, named: map[string]bool{}, counts: map[string]int{},
	}
	if s.LoRA != nil {
		c.hit = make([]bool, len(s.LoRA.Targets))
	}
	return c
}

// graph ends building. Ops of the program must be registered, so that their versions
// are known.
func (c *context) graph() (*graph.Graph, error) {
	g, err := c.b.Graph()
	if err != nil {
		return nil, err
	}
	for _, n := range g.Nodes {
		if !graph.BringsKernel(n.Op) {
			continue
		}
		if _, ok := registry.Find(registry.Op, n.Op.Kind()); !ok {
			return nil, mistake{fmt.Sprintf("%v uses the op %s, which is not registered: call ops.Register for it in an init function", n.Layer, n.Op.Kind())}
		}
	}
	return g, nil
}

// Train builds the graph of a training step: one microbatch forward and
// backward, and the update. Errors name the layer and its config line.
func Train(s Spec, o optim.Spec, z Size) (*graph.Graph, error) {
	s = s.sized(z.Positions)
	c := newContext("train", s, z.Microbatches, z.Microbatch)
	c.training, c.batch = true, z.Batch
	c.b.Stop(z.Stop)
	c.step = c.b.Var(StepName, shape.I32(), graph.Counter, graph.Init{})
	logits := c.forward()
	if err := c.checkRoom(z.Room); err != nil {
		return nil, err
	}
	loss, correct := c.loss(logits)
	answers := optim.Terms{Fixed: z.Batch * s.Terms(), Counted: c.terms()}
	terms, weight := answers, c.weight()
	if weight != nil {
		terms.Counted = weight
	}
	norm := optim.Append(c.b, o, loss, c.step, c.trainable(), &terms)
	switch {
	case weight == nil:
		answers = terms
	case answers.Counted != nil && c.b.Err() == nil:
		answers.Counted = c.accumulated(answers.Counted)
	}
	finishStep(c, z, sums{loss, correct, norm}, terms, answers)
	return c.graph()
}

// Predict builds the graph whose output [PredictOutput] is the model's answer:
// probabilities for classes, numbers otherwise. Of z it uses Microbatch and
// Stop.
func Predict(s Spec, z Size) (*graph.Graph, error) {
	s.Packed = false
	c := newContext("predict", s.sized(z.Positions), 1, z.Microbatch)
	c.b.Stop(z.Stop)
	logits := c.forward()
	c.b.Output(PredictOutput, c.answer(logits))
	return c.graph()
}

// Fingerprint identifies the forward pass and loss of one sample in training. Two models
// with equal fingerprints have the same ops, connections and shapes. Names do not count, nor how
// weights are stored where all of them train.
func (s Spec) Fingerprint() (string, error) {
	if s.LoRA == nil {
		s.Frozen = 0
	}
	c := newContext("model", s, 1, 1)
	c.training, c.batch = true, 1
	c.step = c.b.Var(StepName, shape.I32(), graph.Counter, graph.Init{})
	loss, _ := c.loss(c.forward())
	if c.b.Err() != nil {
		return "", c.b.Err()
	}
	c.b.Output("loss", loss)
	defer c.b.InPhase(graph.Update)()
	for _, f := range c.updates {
		f()
	}
	g, err := c.graph()
	if err != nil {
		return "", err
	}
	return graph.Signature(g), nil
}

// Activations builds the graph whose output [PredictOutput] is the output of the layer of
// a name, as in Predict: nothing is dropped, and statistics stay as they are. Layers behind
// it are not computed. It fails with [NoLayerError] where no layer has the name. Of z it
// uses Microbatch and Stop.
func Activations(s Spec, z Size, layer string) (*graph.Graph, error) {
	s.Packed = false
	c := newContext("activations", s.sized(z.Positions), 1, z.Microbatch)
	c.b.Stop(z.Stop)
	c.wanted = layer
	c.forward()
	if c.b.Err() == nil && c.seen == nil {
		return nil, &NoLayerError{Name: layer, Layers: slices.Sorted(maps.Keys(c.named))}
	}
	c.b.Output(PredictOutput, c.seen)
	return c.graph()
}

// NoLayerError is about a name that no layer of the model has.
type NoLayerError struct {
	Name   string
	Layers []string // the model's, sorted by name
}

func (e *NoLayerError) Error() string { return fmt.Sprintf("the model has no layer %q", e.Name) }

// accumulated is the sum of a microbatch's number over those of the step.
func (c *context) accumulated(x *graph.Value) *graph.Value {
	defer c.b.InPhase(graph.Update)()
	return c.b.Accumulate(x, ops.AddOp)
}

// sums are numbers of a step: the loss, the right answers, or nil, and the norm of the gradients,
// or nil.
type sums struct{ loss, correct, norm *graph.Value }

// finishStep appends the rest of a step: running statistics, the rings that
// collect its loss, and its counter. The loss is a mean over terms, right answers are a share of
// the answers.
func finishStep(c *context, z Size, x sums, terms, answers optim.Terms) {
	if c.b.Err() != nil {
		return
	}
	defer c.b.InPhase(graph.Update)()
	for _, f := range c.updates {
		f()
	}
	writeRing(c, LossRing, z.Ring, c.b.Accumulate(x.loss, ops.AddOp), terms)
	if x.correct != nil {
		writeRing(c, CorrectRing, z.Ring, c.b.Accumulate(x.correct, ops.AddOp), answers)
	}
	if x.norm != nil {
		writeRing(c, GradNormRing, z.Ring, x.norm, optim.Terms{Fixed: 1})
	}
	c.b.Assign(c.step, c.b.One(ops.Increment{}, c.step))
}

// writeRing writes the mean of a step's sum x over terms into a ring, at the step's
// index.
func writeRing(c *context, name string, length int, x *graph.Value, terms optim.Terms) {
	v := c.b.Var(name, shape.F32(max(1, length)), graph.Metric, graph.Init{})
	if terms.Counted != nil {
		x = ops.Div(c.b, x, terms.Counted)
	}
	c.b.Assign(v, c.b.One(ops.RingWrite{Scale: terms.Scale()}, v, c.step, x))
}
