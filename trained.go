package berth

import (
	"cmp"
	"context"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/trained"
	"github.com/berth-ml/berth/internal/errs"
)

// Trained is a trained model on devices: it evaluates and predicts with the
// weights that it was opened for. One goroutine uses it at a time.
type Trained struct{ model *trained.Model }

// Weights says which weights to use: a run folder's checkpoint, or a file.
type Weights = rundir.Weights

// Used says which weights a result is of.
type Used = checkpoint.Used

// What answers consist of.
type (
	// GenerateOptions describes a text to generate.
	GenerateOptions = answer.GenerateOptions
	// Message is a message of a conversation.
	Message = chat.Message
	// Piece is a piece of a text that is generated.
	Piece = answer.Piece
	// Generation describes a text that was generated.
	Generation = answer.Generation
	// Evaluation is a model's loss and metrics over a part of the data.
	Evaluation = answer.Evaluation
	// ClassResult judges the answers about one class.
	ClassResult = answer.ClassResult
	// LabelResult judges the answers about one of several numbers of a target.
	LabelResult = answer.LabelResult
	// Prediction is the model's answer for one sample.
	Prediction = answer.Prediction
	// Named is a text by a name: a column beside an answer.
	Named = answer.Named
	// LostDevice is a device that was lost in an evaluation.
	LostDevice = answer.LostDevice
	// Metrics are metrics by name, such as f1. NaN stands for one that is not defined, such
	// as auc where a class is absent; in JSON it is null. docs/metrics.md describes them.
	Metrics = metrics.Values
)

// Why a text ended: the values of Generation.End.
const (
	EndTokens    = answer.EndTokens    // it has GenerateOptions.Tokens
	EndContext   = answer.EndContext   // the context is full
	EndStop      = answer.EndStop      // one of GenerateOptions.Stop came
	EndOfText    = answer.EndOfText    // a token came that ends a text
	EndCancelled = answer.EndCancelled // the call was cancelled, or its emit failed
)

// The bounds of [GenerateOptions].RepetitionPenalty, with which logits stay finite.
const (
	LeastPenalty = answer.LeastPenalty
	MostPenalty  = answer.MostPenalty
)

// TrainedOptions are the options of OpenTrained. The zero value opens the config's own devices.
type TrainedOptions = trained.OpenOptions

// OpenTrained opens a trained model: for predicting from files, and for
// evaluating on any data. The checkpoint describes the data that it was trained
// on; the config's data is read once it is asked for. The config may differ
// from training's in keys that decide neither what the model computes nor what
// validates; so may the data. Others fail with ErrChanged. With w.Init and no checkpoint in w.Dir, the
// config's data is what the weights were trained on. The caller closes it.
//
// Until the first Eval or Predict has loaded the weights, no process can begin to
// write to the checkpoint file. A run that trains there already goes on; if it deletes
// the checkpoint before it is loaded, the newest or best one then is used.
//
// On shared [Devices], the config's section devices counts for little: see there.
func OpenTrained(ctx context.Context, c *configs.Config, w Weights, o TrainedOptions) (*Trained, error) {
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	m, err := trained.Open(ctx, c, w, o)
	if err != nil {
		return nil, err
	}
	return &Trained{m}, nil
}

// Eval computes loss and metrics over the validation part, or over the
// training part where there is no other. Of data that the model was not trained
// on, every sample counts. The metrics are all that the model has and that take
// little time, and those of train.metrics.
func (t *Trained) Eval(ctx context.Context) (Evaluation, error) {
	if err := t.check(ctx); err != nil {
		return Evaluation{}, err
	}
	return t.model.Eval(ctx)
}

// EvalTest is Eval over the test part, which training has evaluated once at its end: see
// [Report].Test.
func (t *Trained) EvalTest(ctx context.Context) (Evaluation, error) {
	if err := t.check(ctx); err != nil {
		return Evaluation{}, err
	}
	return t.model.EvalTest(ctx)
}

// Predict runs the model on the samples of a file in the format of the run's
// data, or on the validation part for an empty path, and hands over each
// answer in order. emit's error ends it.
func (t *Trained) Predict(ctx context.Context, path string, emit func(Prediction) error) (Used, error) {
	if err := cmp.Or(t.check(ctx), checkEmit(emit == nil)); err != nil {
		return Used{}, err
	}
	return t.model.Predict(ctx, path, emit)
}

// Classifies reports whether the model's answers are classes, and not numbers.
func (t *Trained) Classifies() bool { return t.checkOpened() == nil && t.model.Classifies() }

// PredictRows is Predict for rows of a table: values by the names of their columns, such as
// {"age": 41, "plan": "gold"}. They are texts, numbers, booleans, times, and nil for a missing
// value. Names that the model does not know do not count, unless one is near to that of a column
// that the row lacks, which is an error; a column that the training data had in every row must
// be there.
func (t *Trained) PredictRows(ctx context.Context, rows []map[string]any, emit func(Prediction) error) (Used, error) {
	if err := cmp.Or(t.check(ctx), checkEmit(emit == nil)); err != nil {
		return Used{}, err
	}
	return t.model.PredictRows(ctx, rows, emit)
}

// CanGenerate is nil where [Trained.Generate] continues texts with the model, else the
// reason why not.
func (t *Trained) CanGenerate() error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	return t.model.CanGenerate()
}

// Generate continues a text with a model of texts, and hands over each piece as soon as
// it is there. emit's error ends it. When ctx is cancelled it ends with the operation under
// way, and ErrStopped; text that was held back, since a Stop might have begun, is handed
// over before.
func (t *Trained) Generate(ctx context.Context, o GenerateOptions, emit func(Piece) error) (Generation, error) {
	if err := cmp.Or(t.check(ctx), checkEmit(emit == nil)); err != nil {
		return Generation{}, err
	}
	return t.model.Generate(ctx, o, emit)
}

// GenerateAll is Generate for several texts at once, whose steps read the weights once for all. Their
// options have one Context. Each is the text that it is alone, to the bit, unless products go
// through AMX. Its pieces come with its index in list, from one goroutine at a time. A text with
// numbers that are not finite ends alone: the error is of the first text that has one. emit's
// error ends all.
func (t *Trained) GenerateAll(ctx context.Context, list []GenerateOptions, emit func(text int, p Piece) error) ([]Generation, error) {
	if err := cmp.Or(t.check(ctx), checkEmit(emit == nil)); err != nil {
		return nil, err
	}
	return t.model.GenerateAll(ctx, list, emit)
}

// Notes say how evaluation is other than its user may expect: what percentages of
// memory became, less memory than a microbatch would take, pins to devices that there are
// not, and a model that was trained on one batch.
func (t *Trained) Notes() []string {
	if t.checkOpened() != nil {
		return nil
	}
	return t.model.Notes()
}

// Warnings say what went wrong and did no harm: copies that failed on a device and were
// repeated, devices that were lost, files of other data that are left out, answers that are not
// finite, and, after a call that ended well, faults that did not happen. Each is returned once.
func (t *Trained) Warnings() []string {
	if t.checkOpened() != nil {
		return nil
	}
	return t.model.Warnings()
}

// Used says which weights the model has.
func (t *Trained) Used() Used {
	if t.checkOpened() != nil {
		return Used{}
	}
	return t.model.Used()
}

// Info describes the data that the model was trained on: its classes, for
// example.
func (t *Trained) Info() *datasets.Info {
	if t.checkOpened() != nil {
		return nil
	}
	return t.model.Info()
}

// Reads are the files and folders that the model and its data are read from, so that
// nothing is written over them. samples are the paths that Predict is called with.
func (t *Trained) Reads(samples ...string) []string {
	if t.checkOpened() != nil {
		return samples
	}
	return append(t.model.Reads(), samples...)
}

// Close closes the devices. It fails if anything on them was not freed, and with
// ErrInUse within a call of Eval or Predict. A nil or closed Trained has none.
func (t *Trained) Close() error {
	if t.checkOpened() != nil {
		return nil
	}
	return t.model.Close()
}
