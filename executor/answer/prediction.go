package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/infer"
)

// Prediction is the model's answer for one sample. For classes, Values are
// their probabilities, Class the likeliest one, and Label its name; a text's
// answer is about the token after the sample's last one. For regression,
// Values are the numbers in their own unit. In JSON, NaN and infinite values are null.
// An answer that has such a value has no class.
type Prediction struct {
	Index  int
	Row    []Named // columns of the row of a table that were asked for
	Class  *int    // nil for regression, and where a value is not finite
	Label  string
	Values []float32
	// Names are the labels of a table that Values are of, where those are several or each is 0 or 1;
	// nil otherwise.
	Names []string
}

// Named is a text by a name.
type Named struct{ Name, Text string }

// predictionJSON is a Prediction in JSON, which has no NaN and no infinite numbers: they
// are null.
type predictionJSON struct {
	Index  int              `json:"index"`
	Row    object[string]   `json:"row,omitzero"`
	Class  *int             `json:"class,omitempty"`
	Label  string           `json:"label,omitempty"`
	Values []*float32       `json:"values"`
	Labels object[*float32] `json:"labels,omitzero"`
}

// object is values by name, an object in JSON.
type object[T any] struct {
	names  []string
	values []T
}

func (b object[T]) IsZero() bool { return b.names == nil }

// MarshalJSON keeps the order of the names.
func (b object[T]) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, name := range b.names {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(b.values[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON keeps the order of the names.
func (b *object[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%s is no object of an answer", text)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value T
		if err := d.Decode(&value); err != nil {
			return err
		}
		b.names, b.values = append(b.names, name.(string)), append(b.values, value)
	}
	return nil
}

// MarshalJSON writes null for values that JSON does not have.
func (p Prediction) MarshalJSON() ([]byte, error) {
	values := make([]*float32, len(p.Values))
	for i := range p.Values {
		if v := &p.Values[i]; *v-*v == 0 {
			values[i] = v
		}
	}
	out := predictionJSON{Index: p.Index, Class: p.Class, Label: p.Label, Values: values}
	if len(p.Names) == len(values) {
		out.Labels = object[*float32]{p.Names, values}
	}
	for _, x := range p.Row {
		out.Row.names, out.Row.values = append(out.Row.names, x.Name), append(out.Row.values, x.Text)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes; null is NaN.
func (p *Prediction) UnmarshalJSON(b []byte) error {
	var in predictionJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*p = Prediction{Index: in.Index, Class: in.Class, Label: in.Label, Values: make([]float32, len(in.Values)), Names: in.Labels.names}
	for i, name := range in.Row.names {
		p.Row = append(p.Row, Named{name, in.Row.values[i]})
	}
	for i, v := range in.Values {
		p.Values[i] = float32(math.NaN())
		if v != nil {
			p.Values[i] = *v
		}
	}
	return nil
}

// OddAnswers counts answers with values that are not finite.
type OddAnswers struct {
	all, odd int
	first    int // index of the first of them
}

func (o *OddAnswers) Count(p *Prediction) {
	o.all++
	if finite(p.Values) {
		return
	}
	if o.odd++; o.odd == 1 {
		o.first = p.Index
	}
}

// finite reports whether no value is NaN or infinite.
func finite(values []float32) bool {
	return !slices.ContainsFunc(values, func(v float32) bool { return v-v != 0 })
}

// Text warns of them; "" without any.
func (o *OddAnswers) Text() string {
	if o.odd == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d answers are not finite, the first that of index %d: %s", o.odd, o.all, o.first, OtherWeights)
}

// otherWeights is the advice where they alone help. The weights may be a checkpoint's, or those of a file.
const otherWeights = "use other weights (another --checkpoint, or another file of --init)"

// OtherWeights is the advice about values that are not finite.
const OtherWeights = otherWeights + ", or look for samples that are out of range"

// answered are the numbers of an output that its Prediction has: all of them, or for
// classes those of the last position of a sequence.
func (m *Model) answered(a infer.Answer) []float32 {
	if !m.Classifies() {
		return a.Values
	}
	return a.Values[len(a.Values)-a.Last:]
}

// prediction is the model's output for one sample, in words of the data. values are those
// of answered, and become the prediction's.
func (m *Model) prediction(index int, values []float32) Prediction {
	p := Prediction{Index: index, Values: values}
	if !m.Classifies() {
		if m.Info.TargetScaling != nil {
			m.Info.TargetScaling.Undo(p.Values)
		}
		if len(values) == len(m.Info.TargetNames) {
			p.Names = m.Info.TargetNames
		}
		return p
	}
	if !finite(values) {
		return p
	}
	best := 0
	for i := range values {
		if values[i] > values[best] {
			best = i
		}
	}
	p.Class, p.Label = &best, m.Info.ClassName(best)
	return p
}

// inUnits turns outputs into the unit of the data, and gives their tensor's metadata. last is
// the length of its last axis.
func (m *Model) inUnits(out []float32, samples, last int) shape.Meta {
	if s := m.Info.TargetScaling; s != nil {
		s.Undo(out)
	}
	if n := len(out) / samples; n > last {
		return shape.F32(samples, n/last, last)
	}
	return shape.F32(samples, last)
}
