package custom_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/custom"
	_ "github.com/berth-ml/berth/engine/models" // registers layers
	_ "github.com/berth-ml/berth/engine/optim"  // registers optimizers
	"github.com/berth-ml/berth/engine/shape"
)

// lineKeys are the keys of the source points.
type lineKeys struct {
	Path  string   `yaml:"path" doc:"a file"`
	Slope float64  `yaml:"slope" min:"-2" max:"2" doc:"of the line"`
	Count int      `yaml:"count" min:"1" doc:"samples"`
	Noisy bool     `yaml:"noisy"`
	Words []string `yaml:"words"`
	Sizes []int    `yaml:"sizes"`
}

func (k lineKeys) Check() error {
	if k.Noisy && k.Slope == 0 {
		return errors.New("noisy needs a slope; give one")
	}
	return nil
}

func init() {
	custom.Register(custom.SourceType[lineKeys]{
		Name: "points", Version: 3, Doc: "Points of a line.", Regression: true,
		Defaults: lineKeys{Path: "line: 1.txt", Slope: 1, Count: 10, Words: []string{"a"}},
		Open: func(_ context.Context, k lineKeys) (*custom.Set, error) {
			if k.Count == 13 {
				panic("no luck")
			}
			return &custom.Set{Contents: fmt.Sprint(k), Len: k.Count, Input: shape.F32(1), Target: shape.F32(1), Fill: func(s custom.Sample, in, out *tensor.Dense) error {
				in.Float32s()[0], out.Float32s()[0] = float32(s.Index), float32(s.Index)*float32(k.Slope)
				return nil
			}}, nil
		},
	})
}

const model = "\nmodel: {preset: mlp, hidden: [4]}\n"

// A registered source has keys with checks, defaults, overrides and a place in the
// reference; a config keeps them and its version.
func TestRegisteredSource(t *testing.T) {
	c, err := configs.Parse("points.yaml", []byte("data: {source: points, count: 20, sizes: [3, 4]}"+model), configs.Overlay{Set: []string{"data.slope=-0.5"}})
	if err != nil {
		t.Fatal(err)
	}
	k := *c.Data.Keys.(*lineKeys)
	if k.Count != 20 || k.Slope != -0.5 || k.Noisy || len(k.Words) != 1 || len(k.Sizes) != 2 || c.Data.Path != "line: 1.txt" || c.Loss != "mse" {
		t.Errorf("%+v, path %s, loss %s", k, c.Data.Path, c.Loss)
	}
	text, err := c.YAML()
	if err != nil || !strings.Contains(string(text), "slope: -0.5") || !strings.Contains(string(text), "version: 3") {
		t.Errorf("%s, %v", text, err)
	}
	again, err := configs.Parse("again.yaml", text, configs.Overlay{})
	if err != nil || fmt.Sprint(*again.Data.Keys.(*lineKeys)) != fmt.Sprint(k) || again.Data.Path != c.Data.Path {
		t.Errorf("read again: %+v, %v", again, err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	other := strings.Replace(string(text), "slope: -0.5", "slope: 1.5", 1)
	if list, err := configs.Changes(text, []byte(other)); err != nil || len(list) != 1 || list[0].Key != "data.slope" {
		t.Errorf("%v, %v", list, err)
	}
	if page := configs.Reference(); !strings.Contains(page, "### source: points") || !strings.Contains(page, "| `slope` | a number of at least -2 and at most 2 | `1` | of the line |") {
		t.Error("the reference has no table of the source")
	}
	s, ok, err := custom.Open(t.Context(), "points", c.Data.Keys, "here.txt")
	if err != nil || !ok || s.Name != "points" || s.Version != 3 || s.Len != 20 || !strings.Contains(s.Contents, "here.txt") {
		t.Errorf("%+v, %v, %v", s, ok, err)
	}
}

// Mistakes in a registered source's keys have their place, as any.
func TestRegisteredSourceMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"data: {source: points, slop: 1}":               `points.yaml:1: data.slop: unknown key where source is points; did you mean "slope"?`,
		"data: {source: points, slope: 3}":              "points.yaml:1: data.slope: got 3, expected a number of at least -2 and at most 2",
		"data: {source: points, count: 0}":              "points.yaml:1: data.count: got 0, expected a whole number of at least 1",
		"data: {source: points, version: 2}":            "points.yaml:1: data.version: this run uses the data source points version 2; this program has version 3",
		"data: {source: point}":                         `did you mean "points"?`,
		"data: {source: points, noisy: true, slope: 0}": "points.yaml:1: data: points: noisy needs a slope",
		"data: {source: digits, slope: 1}":              "data.slope: goes with source: points, but source is digits",
	} {
		_, err := configs.Parse("points.yaml", []byte(text+model), configs.Overlay{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	_, _, err := custom.Open(t.Context(), "points", &lineKeys{Count: 13, Slope: 1}, "")
	if err == nil || !strings.HasPrefix(err.Error(), "source points: panic: no luck (at ") {
		t.Errorf("%v", err)
	}
	if _, ok, err := custom.OpenInputs(t.Context(), "points", nil, "", "new.txt"); !ok || err == nil || !strings.Contains(err.Error(), "reads no files to predict from") {
		t.Errorf("%v, %v", ok, err)
	}
	if _, ok, _ := custom.Open(t.Context(), "digits", nil, ""); ok {
		t.Error("digits is registered")
	}
}

// A name that is taken, or that comes too late, is a mistake of the program.
func TestRegisterPanics(t *testing.T) {
	for name, want := range map[string]string{
		"points": `register data source "points" version 3`,
		"csv":    `register the data source "csv": the name exists already`,
		"given":  `register the data source "given": the name exists already`,
	} {
		func() {
			defer func() {
				if x := fmt.Sprint(recover()); !strings.Contains(x, want) {
					t.Error(x)
				}
			}()
			custom.Register(custom.SourceType[lineKeys]{Name: name, Version: 3, Open: func(context.Context, lineKeys) (*custom.Set, error) { return nil, nil }})
		}()
	}
}
