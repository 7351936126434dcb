package metrics

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Values are metrics by name. NaN stands for one that is not defined; in JSON, which
// has no such numbers, it is null.
type Values map[string]float64

// MarshalJSON writes null for numbers that JSON does not have.
func (v Values) MarshalJSON() ([]byte, error) {
	out := make(map[string]*float64, len(v))
	for name, x := range v {
		out[name] = nil
		if x-x == 0 {
			out[name] = &x
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Values) UnmarshalJSON(b []byte) error {
	var in map[string]*float64
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*v = make(Values, len(in))
	for name, x := range in {
		(*v)[name] = math.NaN()
		if x != nil {
			(*v)[name] = *x
		}
	}
	return nil
}

// Names are the metrics' names, sorted.
func (v Values) Names() []string { return slices.Sorted(maps.Keys(v)) }

// Get is a metric that is defined; nil otherwise.
func (v Values) Get(name string) *float64 {
	if x, ok := v[name]; ok && x-x == 0 {
		return &x
	}
	return nil
}

// AppendFields puts the metrics at the end of an object in JSON, under their names
// behind a prefix. The accuracy is left out: objects with metrics have a field of their
// own for it.
func (v Values) AppendFields(object []byte, prefix string) []byte {
	for _, name := range v.Names() {
		if name == "accuracy" {
			continue
		}
		text := []byte("null")
		if x := v.Get(name); x != nil {
			text, _ = json.Marshal(*x) // a finite number never fails
		}
		object = append(fmt.Appendf(object[:len(object)-1], ",%q:", prefix+name), text...)
		object = append(object, '}')
	}
	return object
}
