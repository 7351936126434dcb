package registry

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// window is keys that others embed.
type window struct {
	Kernel int `yaml:"kernel" min:"1" doc:"side of the 'window'"`
	Stride int `yaml:"stride" min:"0" doc:"0: the kernel"`
}

// all has a key of each sort.
type all struct {
	window
	Padding int        `yaml:"padding" min:"0" word:"same=-1" doc:"the run's own zeros"`
	Rate    float64    `yaml:"rate" min:"0" below:"1"`
	Eps     float64    `yaml:"eps" above:"0"`
	Betas   [2]float64 `yaml:"betas" min:"0" below:"1"`
	Axes    []int      `yaml:"axes" min:"0" max:"7" items:"1"`
	NoBias  bool       `yaml:"bias,not"`
	Fn      string     `yaml:"fn,omitempty" words:"relu tanh"`
	Body    []any      `yaml:"layers,nested" items:"1"`
	Tied    string     `yaml:"-"`
}

// Check refuses several keys at once.
func (k all) Check() error {
	var errs []error
	if k.Kernel == 13 {
		errs = append(errs, Refuse("kernel", "%d is unlucky; take %d", k.Kernel, 12))
	}
	if k.Padding > k.Kernel {
		errs = append(errs, Refuse("padding", "it is more than the kernel; lower it"))
	}
	return errors.Join(errs...)
}

// Resolve sets what follows from other keys.
func (k *all) Resolve() {
	if k.Stride == 0 {
		k.Stride = k.Kernel
	}
}

func TestFieldsSayWhatTagsSay(t *testing.T) {
	fields, err := Fields(all{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	if want := strings.Fields("kernel stride padding rate eps betas axes bias fn layers"); !slices.Equal(names, want) {
		t.Fatalf("the keys are %q, want %q", names, want)
	}
	by := map[string]Field{}
	for _, f := range fields {
		by[f.Name] = f
	}
	for _, c := range []struct {
		of        string
		got, want any
	}{
		{"the doc of kernel", by["kernel"].Doc, "side of the `window`"}, {"the doc of padding", by["padding"].Doc, "the run's own zeros"},
		{"the place of stride", by["stride"].Index, []int{0, 1}}, {"the least padding", by["padding"].Min, 0.0}, {"its word", by["padding"].Word, "same"},
		{"its word's number", by["padding"].WordIs, -1}, {"rate below 1", by["rate"].Under, true}, {"the most rate", by["rate"].Max, 1.0},
		{"eps above 0", by["eps"].Over, true}, {"the most eps", by["eps"].Max, math.MaxFloat64}, {"the least axes", by["axes"].Items, 1},
		{"bias is inverted", by["bias"].Inverted, true}, {"fn may be left out", by["fn"].Optional, true}, {"its words", by["fn"].Words, []string{"relu", "tanh"}},
		{"layers are nested", by["layers"].Nested, true},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.of, c.got, c.want)
		}
	}
	keys := all{window: window{Kernel: 3}, Padding: -1, Eps: 1}
	for name, want := range map[string]bool{"kernel": true, "stride": true, "padding": true, "rate": true, "eps": true, "axes": false, "fn": true, "layers": false} {
		if got := by[name].Holds(keys); got != want {
			t.Errorf("%s of %+v holds: %v", name, keys, got)
		}
	}
}

func TestTagsThatCannotBe(t *testing.T) {
	for want, keys := range map[string]any{
		`its tag yaml has the unknown option "nott"`: struct {
			A bool `yaml:"a,nott"`
		}{},
		`its tag yaml has the unknown option "not"`: struct {
			A int `yaml:"a,not"`
		}{},
		`its tag above is "x"`: struct {
			A float64 `yaml:"a" above:"x"`
		}{},
		`its tag below is "1"`: struct {
			A string `yaml:"a" below:"1"`
		}{},
		`its tag items is "1"`: struct {
			A int `yaml:"a" items:"1"`
		}{},
		`its tag words is ""`: struct {
			A string `yaml:"a" words:""`
		}{},
		`its tag word is "same"`: struct {
			A int `yaml:"a" word:"same"`
		}{},
		`are the key "kernel"`: struct {
			window
			K int `yaml:"kernel"`
		}{},
		`it is a map[string]int: use`: struct {
			A map[string]int `yaml:"a"`
		}{},
	} {
		if _, err := Fields(keys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestKeysOfGoCode(t *testing.T) {
	defaults := all{Eps: 0.5, window: window{Kernel: 3}}
	with := func(change func(*all)) all {
		k := defaults
		change(&k)
		return k
	}
	got, err := KeysOf(all{Rate: 0.25}, defaults)
	if err != nil || got.Eps != 0.5 || got.Kernel != 3 || got.Stride != 3 || got.Rate != 0.25 {
		t.Errorf("got %+v, %v: expected the defaults of eps and kernel, and a stride of 3", got, err)
	}
	for want, keys := range map[string]all{
		"rate is 1: give it a number of at least 0 and below 1":                         with(func(k *all) { k.Rate = 1 }),
		"padding is -2: give it a whole number of at least 0":                           with(func(k *all) { k.Padding = -2 }),
		"betas is [0.5 1]: give it a number of at least 0 and below 1":                  with(func(k *all) { k.Betas = [2]float64{0.5, 1} }),
		"eps is -1: give it a number above 0":                                           with(func(k *all) { k.Eps = -1 }),
		`fn is "sinh": use one of relu, tanh`:                                           with(func(k *all) { k.Fn = "sinh" }),
		"kernel: 13 is unlucky; take 12; padding: it is more than the kernel; lower it": with(func(k *all) { k.Kernel, k.Padding = 13, 14 }),
	} {
		if _, err := KeysOf(&keys, defaults); fmt.Sprint(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := KeysOf(nil, all{}); fmt.Sprint(err) != "kernel is 0: give it a whole number of at least 1" {
		t.Errorf("without a default: %v", err)
	}
}

func TestWholesOfBounds(t *testing.T) {
	fields, err := Fields(struct {
		Any   int `yaml:"any"`
		Least int `yaml:"least" min:"1.5"`
		Most  int `yaml:"most" below:"8"`
		Both  int `yaml:"both" above:"0" max:"64"`
	}{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a whole number", "a whole number of at least 2", "a whole number of at most 7", "a whole number from 1 to 64"} {
		if got := WholeText(fields[i].Wholes()); got != want {
			t.Errorf("%s is %q, want %q", fields[i].Name, got, want)
		}
		if got := fields[i].expect(); got != "give it "+want {
			t.Errorf("%s: %q, want the same words", fields[i].Name, got)
		}
	}
}

func TestGet(t *testing.T) {
	for _, keys := range []any{all{Fn: "tanh"}, &all{Fn: "tanh"}} {
		if v, ok := Get(keys, "fn"); !ok || v != "tanh" {
			t.Errorf("fn of a %T is %v, %v", keys, v, ok)
		}
	}
	if v, ok := Get(all{}, "tied"); ok {
		t.Errorf("tied is %v", v)
	}
	if v, ok := Get(nil, "fn"); ok {
		t.Errorf("fn of nothing is %v", v)
	}
}

// Berth's own names come first, in their order and then by name; a program's by name.
func TestListIsInOrder(t *testing.T) {
	fresh(t)
	for _, e := range []Entry{{Name: "zeta"}, {Name: "relu"}, {Name: "own_b", Version: 1}, {Name: "alpha"}, {Name: "dense"}, {Name: "own_a", Version: 3}} {
		e.Kind = Layer
		put(e, func() {})
	}
	var names []string
	for _, e := range List(Layer) {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "dense relu alpha zeta own_a own_b" {
		t.Errorf("the order is %s", got)
	}
}
