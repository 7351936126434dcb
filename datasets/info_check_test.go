package datasets

import (
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/shape"
)

func TestInfoCheck(t *testing.T) {
	good := func() *Info {
		return &Info{
			Inputs: []Field{{"input", shape.F32(2)}}, Target: Field{"target", shape.I32()}, Classes: 2, ClassNames: []string{"a", "b"},
			Features: []string{"x", "y"}, Columns: columns.NumbersOf([]string{"x", "y"}),
			Scaling: &Scaling{Mean: []float64{0, 1}, Std: []float64{1, 2}},
		}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(i *Info){
		"0 inputs, expected 1":           func(i *Info) { i.Inputs = nil },
		"1 inputs, expected 2":           func(i *Info) { i.Buckets = []int{2} },
		"expected f32 or i32":            func(i *Info) { i.Target.Meta.DType = shape.Float64 },
		"negative dimension":             func(i *Info) { i.Inputs[0].Meta = shape.F32(-1) },
		"the buckets are [2 1]":          func(i *Info) { i.Buckets, i.Inputs = []int{2, 1}, []Field{i.Inputs[0], lengthField} },
		"the longest sample is [2]":      func(i *Info) { i.Buckets, i.Inputs = []int{1, 3}, []Field{i.Inputs[0], lengthField} },
		"-1 classes":                     func(i *Info) { i.Classes = -1 },
		"2 classes, and a target is f32": func(i *Info) { i.Target.Meta = shape.F32(1) },
		"3 tokens, and an input is f32":  func(i *Info) { i.Tokens = 3 },
		"1 names for 2 classes":          func(i *Info) { i.ClassNames = []string{"a"} },
		"2 names for 1 labels":           func(i *Info) { i.TargetNames = []string{"a", "b"} },
		"3 names for 2 features":         func(i *Info) { i.Features = []string{"a", "b", "c"} },
		"have 1 features":                func(i *Info) { i.Columns = columns.NumbersOf([]string{"x"}) },
		"1 means":                        func(i *Info) { i.Scaling.Mean = []float64{1} },
		"deviation 0":                    func(i *Info) { i.Scaling.Std[1] = 0 },
		"mean NaN":                       func(i *Info) { i.Scaling.Mean[1] = math.NaN() },
	} {
		i := good()
		change(i)
		if err := i.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
}
