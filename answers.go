package berth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/partition"
)

// Evaluation is a model's loss and metrics over a part of the data.
type Evaluation struct {
	Samples  int      `json:"samples"`
	Part     string   `json:"part"` // validation, training, or all (of other data)
	Loss     float64  `json:"loss"`
	Accuracy *float64 `json:"accuracy,omitempty"` // nil for regression
	RMSE     *float64 `json:"rmse,omitempty"`     // see [Run.RMSE]
	// Perplexity of a text is e to the loss: the model is as unsure as between that
	// many tokens. BitsPerByte is the loss in bits for each byte of the text, which
	// compares models with other tokenizers. Both are nil for other data.
	Perplexity  *float64 `json:"perplexity,omitempty"`
	BitsPerByte *float64 `json:"bits_per_byte,omitempty"`
	Metrics     Metrics  `json:"metrics,omitempty"` // all that the model has, and those of train.metrics
	// Classes are the answers about each class, and Confusion counts them by true class,
	// then by predicted class. With loss bce, the class is the answer 1; of several numbers
	// in a target, each counts as a class, and there is no matrix. Nil where there are more
	// than 1,000 classes, for a text, and for regression.
	Classes   []ClassResult `json:"classes,omitempty"`
	Confusion [][]int64     `json:"confusion,omitempty"`
	Weights   Used          `json:"weights"`
	// DeviceLosses are the devices that were lost meanwhile.
	DeviceLosses []LostDevice `json:"device_losses,omitempty"`
}

// ClassResult judges the answers about one class. Numbers that are not defined, such as
// AUC where no sample is of the class, are nil.
type ClassResult struct {
	Class            int      `json:"class"`
	Label            string   `json:"label,omitempty"`
	Answers          int64    `json:"answers"` // whose truth it is
	Precision        float64  `json:"precision"`
	Recall           float64  `json:"recall"`
	F1               float64  `json:"f1"`
	AUC              *float64 `json:"auc"`
	AveragePrecision *float64 `json:"average_precision"`
}

// Prediction is the model's answer for one sample. For classes, Values are
// their probabilities, Class the likeliest one, and Label its name; a text's
// answer is about the token after the sample's last one. For regression,
// Values are the numbers in their own unit. In JSON, NaN and infinite values are null.
type Prediction struct {
	Index  int
	Class  *int // nil for regression
	Label  string
	Values []float32
}

// predictionJSON is a Prediction in JSON, which has no NaN and no infinite numbers: they
// are null.
type predictionJSON struct {
	Index  int        `json:"index"`
	Class  *int       `json:"class,omitempty"`
	Label  string     `json:"label,omitempty"`
	Values []*float32 `json:"values"`
}

// MarshalJSON writes null for values that JSON does not have.
func (p Prediction) MarshalJSON() ([]byte, error) {
	values := make([]*float32, len(p.Values))
	for i := range p.Values {
		if v := &p.Values[i]; *v-*v == 0 {
			values[i] = v
		}
	}
	return json.Marshal(predictionJSON{p.Index, p.Class, p.Label, values})
}

// UnmarshalJSON reads what MarshalJSON writes; null is NaN.
func (p *Prediction) UnmarshalJSON(b []byte) error {
	var in predictionJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*p = Prediction{in.Index, in.Class, in.Label, make([]float32, len(in.Values))}
	for i, v := range in.Values {
		p.Values[i] = float32(math.NaN())
		if v != nil {
			p.Values[i] = *v
		}
	}
	return nil
}

// oddAnswers counts answers with values that are not finite.
type oddAnswers struct {
	all, odd int
	first    int // index of the first of them
}

func (o *oddAnswers) count(p *Prediction) {
	o.all++
	if !slices.ContainsFunc(p.Values, func(v float32) bool { return v-v != 0 }) {
		return
	}
	if o.odd++; o.odd == 1 {
		o.first = p.Index
	}
}

// text warns of them; "" without any.
func (o *oddAnswers) text() string {
	if o.odd == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d answers are not finite, the first that of index %d: %s", o.odd, o.all, o.first, otherWeights)
}

// otherWeights is the advice about values that are not finite.
const otherWeights = "use other weights (--checkpoint, --best), or look for samples that are out of range"

// numbered reports whether answers are numbers, and not classes.
func (s *setup) numbered() bool { return !s.spec.Classifies() || s.info.Classes == 0 }

// answered are the numbers of an output that its Prediction has: all of them, or for
// classes those of the last position of a sequence.
func (s *setup) answered(a infer.Answer) []float32 {
	if s.numbered() {
		return a.Values
	}
	return a.Values[len(a.Values)-a.Last:]
}

// predictionOf is a model's output for one sample, in words of the data. values are those
// of answered, and become the prediction's.
func predictionOf(index int, values []float32, s *setup) Prediction {
	p := Prediction{Index: index, Values: values}
	if s.numbered() {
		if s.info.TargetScaling != nil {
			s.info.TargetScaling.Undo(p.Values)
		}
		return p
	}
	best := 0
	for i := range values {
		if values[i] > values[best] {
			best = i
		}
	}
	p.Class, p.Label = &best, s.info.ClassName(best)
	return p
}

// take takes the metrics of a score in.
func (e *Evaluation) take(ctx context.Context, j *judge, score infer.Score) (err error) {
	if e.Metrics, err = j.values(ctx, score); err != nil {
		return err
	}
	e.Perplexity, e.BitsPerByte = e.Metrics.Get("perplexity"), e.Metrics.Get("bits_per_byte")
	if !j.set.Has("confusion") {
		return nil
	}
	c := score.Collected
	e.Confusion = c.Matrix()
	for i, x := range c.ByClass() {
		if c.Kind == metrics.Bits && c.Outputs == 1 {
			i = 1
		}
		of := ClassResult{Class: i, Answers: x.Answers, Precision: x.Precision, Recall: x.Recall, F1: x.F1, AUC: x.AUC, AveragePrecision: x.AveragePrecision}
		if i < len(j.info.ClassNames) {
			of.Label = j.info.ClassNames[i]
		}
		e.Classes = append(e.Classes, of)
	}
	return nil
}

// judgeOf is the judge of an evaluation. Where a device has no memory for all metrics,
// it leaves out those that nobody has asked for, and says so.
func (t *Trained) judgeOf(ctx context.Context, part *datasets.Part) (*judge, error) {
	s := t.setup
	j, err := s.newJudge(ctx, part, atEnd(s.config))
	if !errors.Is(err, partition.ErrMemory) {
		return j, err
	}
	least, refused := s.newJudge(ctx, part, func(t metrics.Task) ([]wanted, error) {
		if slices.Equal(s.config.Train.Metrics, []string{configs.MetricsAll}) {
			return usual(t), nil
		}
		list, err := listed(s.config, t)
		return append(usual(t), list...), err
	})
	if refused != nil {
		return nil, err
	}
	t.warnings = append(t.warnings, fmt.Sprintf("some metrics are left out: %v", err))
	return least, nil
}
