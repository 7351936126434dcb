package exchange

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/shape"
)

// Metadata from anywhere is refused, or says something that holds together: it can be written
// again, and makes names of classes and features of rows.
func FuzzFitted(f *testing.F) {
	for _, info := range []datasets.Info{
		{
			Inputs: []datasets.Field{{Name: "input", Meta: shape.F32(2)}}, Target: datasets.Field{Name: "target", Meta: shape.I32()}, Classes: 2,
			ClassNames: []string{"no", "yes"}, Features: []string{"a", "b"}, Scaling: &datasets.Scaling{Mean: []float64{1, 2}, Std: []float64{3, 4}}, Fingerprint: "x",
		},
		{
			Inputs: []datasets.Field{{Name: "input", Meta: shape.I32(8)}, {Name: "length", Meta: shape.I32()}}, Buckets: []int{4, 8}, Tokens: 5,
			Target: datasets.Field{Name: "target", Meta: shape.F32(1)}, TargetScaling: &datasets.Scaling{Mean: []float64{1}, Std: []float64{3}},
		},
	} {
		text, err := json.Marshal(fitted{Version: fittedVersion, Config: "name: x", Data: info})
		if err != nil {
			f.Fatal(err)
		}
		if _, err := readFitted(map[string]string{fittedKey: string(text)}); err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{"Version":1,"Data":{"Columns":{"Version":1,"Columns":[{"Name":"a","Kind":"date","Order":"ymd"}]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		x, err := readFitted(map[string]string{fittedKey: text})
		if err != nil {
			if !errors.Is(err, ErrFitted) {
				t.Errorf("%v is no ErrFitted", err)
			}
			return
		}
		written, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		again, err := readFitted(map[string]string{fittedKey: string(written)})
		if err != nil {
			t.Fatalf("%v in %s", err, written)
		}
		if now, err := json.Marshal(again); err != nil || !reflect.DeepEqual(now, written) {
			t.Errorf("%s was written as %s, %v", written, now, err)
		}
		x.Data.ClassName(0)
		_, _ = datasets.RowFeatures(&x.Data, []map[string]any{{}})
	})
}
