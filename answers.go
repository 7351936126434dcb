package berth

import (
	"slices"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/executor/infer"
)

// Evaluation is a model's loss and accuracy over a part of the data.
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
	Weights     Used     `json:"weights"`
	// DeviceLosses are the devices that were lost meanwhile.
	DeviceLosses []LostDevice `json:"device_losses,omitempty"`
}

// Prediction is the model's answer for one sample. For classes, Values are
// their probabilities, Class the likeliest one, and Label its name; a text's
// answer is about the token after the sample's last one. For regression,
// Values are the numbers in their own unit.
type Prediction struct {
	Index  int       `json:"index"`
	Class  *int      `json:"class,omitempty"`
	Label  string    `json:"label,omitempty"`
	Values []float32 `json:"values"`
}

// predictionOf is a model's output for one sample, in words of the data.
func predictionOf(a infer.Answer, s *setup) Prediction {
	v, info := a.Values, s.info
	if !s.spec.Classifies() || info.Classes == 0 {
		p := Prediction{Index: a.Index, Values: slices.Clone(v)}
		if info.TargetScaling != nil {
			info.TargetScaling.Undo(p.Values)
		}
		return p
	}
	v = v[len(v)-a.Last:] // the last position of a sequence
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	p := Prediction{Index: a.Index, Class: &best, Values: slices.Clone(v)}
	switch {
	case info.Tokenizer != nil:
		p.Label = tokenizer.Text(info.Tokenizer, int32(best))
	case best < len(info.ClassNames):
		p.Label = info.ClassNames[best]
	}
	return p
}
