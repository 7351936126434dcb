package configs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/registry"
)

// Weights read back as they were written, whatever the classes are called.
func TestWeightsRoundTrip(t *testing.T) {
	for text, want := range map[string]registry.Weights{
		"balanced":                       {Word: "balanced"},
		"{yes: 5, no: 0.25}":             {ByName: map[string]float64{"yes": 5, "no": 0.25}},
		"{1: 2, '01': 3, a.b: 4}":        {ByName: map[string]float64{"1": 2, "01": 3, "a.b": 4}},
		"{balanced: 1e-3, 'a: b': 1e+5}": {ByName: map[string]float64{"balanced": 1e-3, "a: b": 1e5}},
	} {
		c, err := Parse("w.yaml", []byte("data: digits\nmodel: {preset: mlp}\nloss: {name: focal, class_weights: "+text+"}\n"), Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		written, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse("back.yaml", written, Overlay{})
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		for _, c := range []*Config{c, back} {
			if got, _ := registry.Get(c.LossKeys.Keys, "class_weights"); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, want %+v", text, got, want)
			}
		}
	}
	_, err := Parse("w.yaml", []byte("data: digits\nmodel: {preset: mlp}\nloss: {name: focal, class_weights: {a: 1, a: 2}}\n"), Overlay{})
	if err == nil || !strings.Contains(err.Error(), "w.yaml:3: loss.class_weights.a: given twice") {
		t.Error(err)
	}
	c, err := Parse("plain.yaml", []byte("data: digits\nmodel: {preset: mlp}\n"), Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	if written, err := c.YAML(); err != nil || strings.Contains(string(written), "weights") || !strings.Contains(string(written), "loss: cross_entropy\n") {
		t.Errorf("%s %v", written, err)
	}
}
