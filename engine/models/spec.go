package models

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
)

// ErrModel is the cause of errors about a model's layers.
var ErrModel = errors.New("model")

// Spec is everything that decides a model's graphs but their batch size.
type Spec struct {
	Input  shape.Meta // of one sample
	Target shape.Meta // of one sample
	Layers []Layer
	Loss   string // cross_entropy, mse or bce
	Seed   uint64 // for dropout
	BF16   bool   // dense products round their operands to bfloat16, as [ops.MatMul] says

	// What the data is known to hold, 0 where it is not: the model must have room
	// for it.
	Classes int // of the target
	Tokens  int // ids of the input
}

// Size says how a step's batch is cut.
type Size struct {
	Microbatch   int // samples in a microbatch
	Microbatches int // microbatches in a step
	Batch        int // samples in the step: what the mean is taken over
	Ring         int // length of the rings that collect losses, in steps

	// Room is how many bytes the parameters may take, 0 for any number. A model
	// that needs more is not built to its end, which would take long.
	Room int64
}

// TooLargeError is about a model whose parameters alone take more than Size.Room.
type TooLargeError struct {
	Parameters, Room int64        // bytes
	Largest          *graph.Layer // the layer with the most bytes of parameters
	Bytes            int64        // of its parameters
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the parameters alone take %d bytes and there is room for %d", e.Parameters, e.Room)
}

// Names of the values that callers look for.
const (
	InputName     = "input"
	TargetName    = "target"
	BaseName      = "sample_base" // index in the batch of a microbatch's first sample
	StepName      = "step"
	LossRing      = "loss_ring"    // mean loss of each step
	CorrectRing   = "correct_ring" // share of right answers of each step
	EvalLoss      = "eval/loss"    // sum over terms
	EvalCorrect   = "eval/correct" // count over terms
	PredictOutput = "prediction"
)

// Terms is how many loss terms one sample has.
func (s Spec) Terms() int { return max(1, s.Target.Elems()) }

// Classifies reports whether accuracy means something for the model.
func (s Spec) Classifies() bool { return s.Loss != "mse" }

// Train builds the graph of a training step: one microbatch forward and
// backward, and the update. Errors name the layer and its config line.
func Train(s Spec, o optim.Spec, z Size) (*graph.Graph, error) {
	c := newContext("train", s, z.Microbatches, z.Microbatch)
	c.training, c.batch = true, z.Batch
	c.step = c.b.Var(StepName, shape.I32(), graph.Counter, graph.Init{})
	logits := c.forward()
	if err := c.fit(z.Room); err != nil {
		return nil, err
	}
	loss, correct := c.loss(logits)
	terms := z.Batch * s.Terms()
	optim.Append(c.b, o, loss, c.step, c.vars, terms)
	c.finishStep(z, loss, correct, terms)
	return c.b.Graph()
}

// Eval builds the graph that adds a batch's loss and right answers to the
// variables [EvalLoss] and [EvalCorrect].
func Eval(s Spec, microbatch int) (*graph.Graph, error) {
	c := newContext("eval", s, 1, microbatch)
	loss, correct := c.loss(c.forward())
	defer c.b.InPhase(graph.Update)()
	c.addTo(EvalLoss, loss)
	if correct != nil {
		c.addTo(EvalCorrect, correct)
	}
	return c.b.Graph()
}

// Predict builds the graph whose output [PredictOutput] is the model's answer:
// probabilities for classes, values otherwise.
func Predict(s Spec, microbatch int) (*graph.Graph, error) {
	c := newContext("predict", s, 1, microbatch)
	logits := c.forward()
	c.b.Output(PredictOutput, c.answer(logits))
	return c.b.Graph()
}
