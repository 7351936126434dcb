package models

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/shape"
)

// ErrModel is the cause of errors about a model's layers.
var ErrModel = errors.New("model")

// Spec describes a model. Together with a batch size it decides its graphs.
type Spec struct {
	Input  shape.Meta // of one sample; of sequences with lengths, the longest
	Target shape.Meta // of one sample
	Layers Stack
	Loss   string // cross_entropy, mse, bce or one of [RegisterLoss]
	// LossKeys are the keys of the loss, or a pointer to them; nil: the defaults.
	LossKeys any
	Seed     uint64 // of dropout
	// Soft: in training, a target has a share of each class, f32[Classes], and Target is of other graphs. It needs
	// the loss cross_entropy without weights of classes.
	Soft bool
	// Lengths: samples are sequences i32[T] of different lengths, padded to one of a few
	// sizes. The graphs have the input [LengthName], and padding never changes a number
	// that counts. Layers that cannot leave it out are refused.
	Lengths bool
	// Masked, with Lengths: a target may be -1 where a position counts, too. It is left out of
	// the loss and of metrics like that of padding.
	Masked bool
	// Packed, with Lengths: a sample has several sequences in a row. Graphs with a loss have the
	// input [PositionName], and keep each sequence to itself. In others, a sample is one.
	Packed bool
	// LoRA has an adapter trained in place of the weights; nil: all parameters are trained.
	LoRA *LoRA
	// Frozen is the type that stores matrices that do not train, of dense layers, projections and token
	// embeddings: zero is Float32. BFloat16 takes half the bytes, rounded as [ops.NarrowBF16] says, Int8Block
	// 27% of them, rounded as [ops.NarrowInt8] says. All arithmetic is in float32. A graph that trains needs LoRA.
	Frozen shape.DType
	BF16   bool // products with weights, and those of attention, round their factors to bfloat16, as [ops.MatMul] and [ops.Attention] say

	// The numbers of classes and tokens in the data, 0 if unknown. A model with
	// room for fewer is refused.
	Classes int // of the target
	Tokens  int // ids of the input

	// ClassWeights say how much an answer about each class counts in training, above 0; with loss
	// bce, how much the 1 of each number does. nil: each counts 1, and so do classes behind the last.
	ClassWeights []float64

	// Averaged reports whether graphs that do not train read the average of a parameter in its
	// place: see optim.Spec.Averages. nil: of none.
	Averaged func(parameter string) bool

	// Statistics are what Eval and EvalApart collect in addition to the loss and right answers.
	// Scores has them give each answer's probabilities. Scaling is the scaling of the targets,
	// for statistics.
	Statistics []*metrics.Statistic
	Scores     bool
	Scaling    *metrics.Scaling

	longest int // positions of Input, before a graph for fewer changes it; 0: Input has them
}

// Terms is the number of loss terms of one sample; with Lengths, the most.
func (s Spec) Terms() int { return max(1, s.Target.Elems()) }

// Answers is the kind of the model's answers.
func (s Spec) Answers() metrics.Kind {
	switch {
	case losses[s.Loss].bits:
		return metrics.Bits
	case s.Target.DType == shape.Int32:
		return metrics.Classes
	}
	return metrics.Numbers
}

// Size describes a step's batch and its limits.
type Size struct {
	Microbatch   int // samples in a microbatch
	Microbatches int // microbatches in a step
	Batch        int // samples in the step, over which the loss is averaged
	Ring         int // length of the rings that collect losses, in steps
	Positions    int // that samples of different lengths are padded to; 0: as many as Spec.Input has

	// Stop is asked while the graph is built, which ends with its error. Nil
	// means never.
	Stop func() error

	// Room is the most bytes that the parameters may take; 0: no limit. A model
	// that needs more is refused before its backward pass is built, which would
	// take long.
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

// Names of the values that callers look up.
const (
	InputName     = "input"
	TargetName    = "target"
	PositionName  = "position"       // i32[B,T]: of each position, in its own sequence of several in a row, with Spec.Packed
	LengthName    = "length"         // i32[B]: positions of each sequence that are no padding, with Spec.Lengths
	BaseName      = "sample_base"    // index in the batch of a microbatch's first sample
	StepName      = "step"           // steps taken so far
	LossRing      = "loss_ring"      // mean loss of each step
	CorrectRing   = "correct_ring"   // share of right answers of each step
	GradNormRing  = "grad_norm_ring" // norm of each step's gradients, with optim.Spec.GradNorm
	EvalLoss      = "eval/loss"      // sum over terms
	EvalCorrect   = "eval/correct"   // count over terms
	EvalBatches   = "eval/batches"   // of a program, in EvalApart
	EvalScores    = "eval/scores"    // each answer's probabilities, with Spec.Scores
	EvalCells     = "eval/cells"     // each answer's cell in the confusion matrix, with Spec.Scores
	PredictOutput = "prediction"
)

// GenerateSize describes the chunks of a generation.
type GenerateSize struct {
	Texts   int  // texts of which a step reads a chunk; 0: 1
	Rows    int  // most tokens of a text's chunk: 1 to decode, more to read a prompt
	Places  int  // texts for which the caches have room; 0: 1
	Context int  // positions of a text that the caches have
	Logits  bool // the logits are an output too

	// Stop is asked while the graph is built, which ends with its error. Nil means
	// never.
	Stop func() error
}

// Names of the values of a graph of [Generate]. Its input has the chunks' tokens, i32[B,T]. B is
// GenerateSize.Texts, and P is GenerateSize.Places.
const (
	ExtentName     = "extent"           // i32[B,3]: see [ops.Extent]
	SampleAtName   = "sample_at"        // i32[B]: number of the token that is sampled, for its random number
	ShapingName    = "sampling/shaping" // f32[B,2]: see [ops.Sample]
	ChoiceName     = "sampling/choice"  // i32[B,3], likewise
	PenaltyName    = "sampling/penalty" // f32[B]: see [ops.RepetitionPenalty]
	SeenName       = "sampling/seen"    // i32[P,V], a variable: see [ops.SeenWrite]
	GenerateToken  = "token"            // i32[B]: the sampled tokens, see [ops.Sample]
	GenerateLogits = "logits"           // f32[B,1,V], with GenerateSize.Logits
)
