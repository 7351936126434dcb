package answer

import (
	"cmp"
	"context"
	"math"
	"strconv"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/executor/infer"
)

// Evaluation is a model's loss and metrics over a part of the data.
type Evaluation struct {
	Samples  int      `json:"samples"`
	Part     string   `json:"part"` // validation, training, test, or all (of other data)
	Loss     float64  `json:"loss"`
	Accuracy *float64 `json:"accuracy,omitempty"` // nil for regression
	RMSE     *float64 `json:"rmse,omitempty"`     // see [Model.RMSE]
	// Perplexity of a text is e to the loss: the model is as unsure as between that
	// many tokens. BitsPerByte is the loss in bits for each byte of the text, which
	// compares models with other tokenizers. Both are nil for other data.
	Perplexity  *float64       `json:"perplexity,omitempty"`
	BitsPerByte *float64       `json:"bits_per_byte,omitempty"`
	Metrics     metrics.Values `json:"metrics,omitempty"` // all that the model has, and those of train.metrics
	// Average says what precision, recall and f1 are: macro, the mean over the classes, or binary, of
	// the positive one. Positive is the name of the positive one of two classes, or its number. Both
	// are empty where there are no such metrics.
	Average  string `json:"average,omitempty"`
	Positive string `json:"positive,omitempty"`
	// Classes are the answers about each class, and Confusion counts them by true class,
	// then by predicted class. With loss bce, the one class is the answer 1. Where a target has
	// several numbers, each is a class, and there is no Confusion. Both are nil for more than
	// 1,000 classes, for a text, and for regression.
	Classes   []ClassResult `json:"classes,omitempty"`
	Confusion [][]int64     `json:"confusion,omitempty"`
	// Labels are the answers about each of several numbers of a target; nil otherwise, and for more
	// than 1,000 numbers.
	Labels  []LabelResult   `json:"labels,omitempty"`
	Weights checkpoint.Used `json:"weights"`
	// DeviceLosses are the devices that were lost meanwhile.
	DeviceLosses []LostDevice `json:"device_losses,omitempty"`
}

// ClassResult judges the answers about one class. Numbers that are not defined, such as
// AUC where no sample is of the class, are nil.
type ClassResult struct {
	Class            int      `json:"class"`
	Label            string   `json:"label,omitempty"`
	Answers          int64    `json:"answers"`            // whose truth it is
	Accuracy         *float64 `json:"accuracy,omitempty"` // with loss bce: of the label
	Precision        float64  `json:"precision"`
	Recall           float64  `json:"recall"`
	F1               float64  `json:"f1"`
	AUC              *float64 `json:"auc"`
	AveragePrecision *float64 `json:"average_precision"`
}

// LabelResult judges the answers about one number of a target, in its own unit.
type LabelResult struct {
	Label string   `json:"label,omitempty"` // of a table
	RMSE  float64  `json:"rmse"`
	MAE   float64  `json:"mae"`
	R2    *float64 `json:"r2"` // nil where it is not defined
}

// LostDevice is a device that was lost in an evaluation. The others took over its
// batches.
type LostDevice struct {
	Device device.ID `json:"device"`
	Cause  string    `json:"cause"` // the operation that failed, and why
}

// Take takes the metrics of a score in.
func (e *Evaluation) Take(ctx context.Context, j *Judge, score infer.Score) (err error) {
	if e.Metrics, err = j.Values(ctx, score); err != nil {
		return err
	}
	e.Perplexity, e.BitsPerByte = e.Metrics.Get("perplexity"), e.Metrics.Get("bits_per_byte")
	c := score.Collected
	names := j.model.Info.TargetNames
	if c.Kind == metrics.Numbers && c.Outputs > 1 && c.Outputs <= metrics.MaxClasses {
		for i, x := range c.ByOutput() {
			e.Labels = append(e.Labels, LabelResult{nameOf(names, i), x.RMSE, x.MAE, x.R2})
		}
	}
	if !j.set.Has("confusion") {
		return nil
	}
	e.Confusion = c.Matrix()
	if e.Average = "macro"; c.Kind == metrics.Bits && c.Binary() {
		e.Average = "binary"
	}
	if c.Binary() {
		e.Positive = cmp.Or(j.model.Info.ClassName(c.Positive()), strconv.Itoa(c.Positive()))
	}
	for i, x := range c.ByClass() {
		label := nameOf(j.model.Info.ClassNames, i)
		if c.Kind == metrics.Bits {
			label = nameOf(names, i)
		}
		if c.Kind == metrics.Bits && c.Outputs == 1 {
			i = 1
		}
		of := ClassResult{Class: i, Label: label, Answers: x.Answers, Accuracy: x.Accuracy, Precision: x.Precision, Recall: x.Recall, F1: x.F1, AUC: x.AUC, AveragePrecision: x.AveragePrecision}
		e.Classes = append(e.Classes, of)
	}
	return nil
}

// nameOf is name i; "" if there is none.
func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return ""
}

// RMSE is the root of a mean squared error in the unit of the numbers that are
// predicted. It is nil where the loss is another, or each of several numbers
// was scaled to its own unit.
func (m *Model) RMSE(loss *float64) *float64 {
	if loss == nil || m.Infer.Spec.Loss != "mse" {
		return nil
	}
	v := math.Sqrt(*loss)
	if x := m.Info.TargetScaling; x != nil {
		if len(x.Std) > 1 {
			return nil
		}
		v *= x.Std[0]
	}
	return &v
}
