package initial_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

const seed = 7

// variables are those of a model with a layer of so many units.
func variables(t *testing.T, units int) []*graph.Value {
	t.Helper()
	spec := models.Spec{
		Input: shape.F32(4), Target: shape.I32(), Loss: "cross_entropy", Seed: seed, Classes: 3,
		Layers: models.MLP([]int{units}, "relu", 3, graph.Pos{}),
	}
	o := optim.Spec{Name: "momentum", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}}
	g, err := models.Train(spec, o, models.Size{Microbatch: 2, Microbatches: 1, Batch: 2, Ring: 5})
	if err != nil {
		t.Fatal(err)
	}
	return g.Vars
}

// marked is a source in which each byte of a variable is its number.
type marked []*graph.Value

func (m marked) Tensors() (list []checkpoint.Tensor) {
	for _, v := range m {
		list = append(list, checkpoint.Tensor{Name: v.Name, Meta: v.Meta, Role: v.Role.String()})
	}
	return list
}

func (m marked) Read(name string, _ int64, dst []byte) error {
	for i, v := range m {
		if v.Name == name {
			copy(dst, bytes.Repeat([]byte{byte(i + 1)}, len(dst)))
		}
	}
	return nil
}

// saved is a checkpoint file with one checkpoint of variables.
func saved(t *testing.T, vars []*graph.Value) (*checkpoint.DB, *checkpoint.Snapshot) {
	t.Helper()
	db, err := checkpoint.Open(filepath.Join(t.TempDir(), "x.db"), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	id, err := db.Save(t.Context(), checkpoint.Manifest{Step: 1}, marked(vars))
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

// Without a file all contents are by rule.
func TestByRule(t *testing.T) {
	x, err := initial.Open(t.Context(), "", seed, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables(t, 5) {
		got, want := make([]byte, v.Meta.Bytes()), make([]byte, v.Meta.Bytes())
		models.Fill(v, seed, want)
		if err := x.Read(v, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

// A file gives parameters, and the rule the rest.
func TestFromAFile(t *testing.T) {
	vars := variables(t, 5)
	db, s := saved(t, vars)
	file := filepath.Join(t.TempDir(), "w:1.safetensors")
	if err := db.Export(s.Manifest.ID, file, "parameter"); err != nil {
		t.Fatal(err)
	}
	x, err := initial.Open(t.Context(), file, seed, vars)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for i, v := range vars {
		got, want := make([]byte, v.Meta.Bytes()), make([]byte, v.Meta.Bytes())
		models.Fill(v, seed, want)
		if v.Role == graph.Parameter {
			want = bytes.Repeat([]byte{byte(i + 1)}, len(want))
		}
		if err := x.Read(v, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	for init, want := range map[string]string{
		file + ":model.":        "4 weights are missing: model.layers.0.weight",
		file + ".none":          "no such file",
		os.TempDir():            "",
		"nowhere.safetensors:a": "no such file",
	} {
		if _, err := initial.Open(t.Context(), init, seed, vars); !errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", init, err)
		}
	}
	if _, err := initial.Open(t.Context(), file, seed, variables(t, 6)); !errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), "the model has") {
		t.Errorf("another model: %v", err)
	}
}

// An average begins with the contents of its weight, also in ranges: by rule, of a plain file and
// of a compressed one, in any order.
func TestAveragesBeginWithTheWeights(t *testing.T) {
	vars := variables(t, 5)
	db, s := saved(t, vars)
	dir := t.TempDir()
	plain, packed := filepath.Join(dir, "w.safetensors"), filepath.Join(dir, "packed")
	if err := db.Export(s.Manifest.ID, plain, "parameter"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close(), os.WriteFile(packed, z.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, init := range []string{"", plain, packed} {
		x, err := initial.Open(t.Context(), init, seed, vars)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{1, 2, 4, 3, 2, 1} {
			v := vars[i]
			if v.Role != graph.Parameter {
				t.Fatalf("%v is no parameter", v)
			}
			want := make([]byte, v.Meta.Bytes())
			if models.Fill(v, seed, want); init != "" {
				want = bytes.Repeat([]byte{byte(i + 1)}, len(want))
			}
			average := *v
			average.Name, average.Role = graph.AverageOf(v.Name), graph.Average
			got := make([]byte, len(want))
			if err := x.Read(&average, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %q: %v", average.Name, init, err)
			}
			if v.Meta.Elems() < 8 {
				continue
			}
			part := average
			part.Name, part.Meta, part.Range = average.Name+"[4:6]", shape.F32(2), &graph.Range{Of: &average, From: 4}
			if err := x.Read(&part, got[:8]); err != nil || !bytes.Equal(got[:8], want[16:24]) {
				t.Errorf("%s of %q: %v", part.Name, init, err)
			}
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	imported, err := db.Save(t.Context(), checkpoint.Manifest{}, marked(vars[1:5]))
	if err != nil {
		t.Fatal(err)
	}
	s, err = db.Load(imported)
	if err != nil {
		t.Fatal(err)
	}
	average := *vars[2]
	average.Name, average.Role = graph.AverageOf(vars[2].Name), graph.Average
	got := make([]byte, average.Meta.Bytes())
	if err := initial.FromSnapshot(s, nil)(&average, got); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{2}, len(got))) {
		t.Errorf("of an imported model: %v, %v", got, err)
	}
}

// Contents that float32 cannot hold are a mistake in the file, too.
func TestUnfitContents(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.safetensors")
	entries := []safetensors.Entry{{Name: "w", Meta: shape.I32(1), Bytes: []byte{255, 255, 255, 127}}}
	if err := safetensors.WriteFile(file, entries, nil); err != nil {
		t.Fatal(err)
	}
	w := &graph.Value{Name: "w", Meta: shape.F32(1), Role: graph.Parameter}
	x, err := initial.Open(t.Context(), file, seed, []*graph.Value{w})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Read(w, make([]byte, 4)); !errors.Is(err, initial.ErrInit) || !errors.Is(err, safetensors.ErrConvert) {
		t.Error(err)
	}
}

// A source is read from what a person types, and from what it writes.
func TestParseSource(t *testing.T) {
	colon := filepath.Join(t.TempDir(), "a:b")
	if err := os.WriteFile(colon, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]initial.Source{
		"w.safetensors":                         {File: "w.safetensors"},
		"w.safetensors:model.":                  {File: "w.safetensors", Prefix: "model."},
		colon:                                   {File: colon},
		colon + ":x.":                           {File: colon, Prefix: "x."},
		"{file: w.safetensors, skip: [head.*]}": {File: "w.safetensors", Skip: []string{"head.*"}},
		`{"file":"a<b","prefix":"x.","skip":["a","b.*"]}`: {File: "a<b", Prefix: "x.", Skip: []string{"a", "b.*"}},
		"{skip: [head.*]}": {Skip: []string{"head.*"}},
	} {
		got, err := initial.ParseSource(text)
		again, err2 := initial.ParseSource(got.String())
		if err != nil || err2 != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(again, want) {
			t.Errorf("%s: %+v, and again %+v, %v %v", text, got, again, err, err2)
		}
	}
	for text, want := range map[string]string{
		"{file: w, skp: [a]}":    "field skp not found",
		"{file: w":               "expected FILE[:PREFIX] or {file: w.safetensors, skip: [head.*]}",
		"{file: w, skip: ['[']}": `skip: "[" is not a pattern of names, such as head.*`,
		"{file: w, skip: ['']}":  `skip: "" is not a pattern`,
	} {
		if _, err := initial.ParseSource(text); !errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Weights that are skipped begin by rule, whatever the file has of them. The prefix is found
// with which most are in the file. One line says what was taken, and each reason not to.
func TestSkipAndPrefix(t *testing.T) {
	vars := variables(t, 5)
	db, s := saved(t, variables(t, 6))
	dir := t.TempDir()
	file := filepath.Join(dir, "w.safetensors")
	err := s.Export(t.Context(), file, nil, func(x checkpoint.Tensor) string {
		if x.Role != "parameter" {
			return ""
		}
		return "net.model." + x.Name
	})
	if err != nil {
		t.Fatal(err)
	}
	open := func(init string) (*initial.Values, error) {
		x, err := initial.Open(t.Context(), init, seed, vars)
		if err == nil {
			t.Cleanup(func() { x.Close() })
		}
		return x, err
	}
	_, err = open(file)
	const want = "w.safetensors does not fit the model: 3 weights are of another shape: net.model.layers.0.weight is [6,4], the model has [5,4]; net.model.layers.0.bias is [6], the model has [5]; " +
		"net.model.layers.1.weight is [3,6], the model has [3,5]; give those that are to begin anew as skip, as in {file: "
	if !errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), want) {
		t.Errorf("of another model: %v, want %s", err, want)
	}
	x, err := open("{file: " + file + ", skip: [layers.0.*, '*.1.weight']}")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := x.Fit(), file+": 1 of 4 tensors; named net.model.*; layers.0.*, *.1.weight left out as asked"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, v := range vars {
		got, rule := make([]byte, v.Meta.Bytes()), make([]byte, v.Meta.Bytes())
		models.Fill(v, seed, rule)
		if err := x.Read(v, got); err != nil || bytes.Equal(got, rule) == (v.Name == "layers.1.bias") {
			t.Errorf("%s: by rule %v, %v", v.Name, bytes.Equal(got, rule), err)
		}
	}
	if _, err := open("{file: " + file + ", skip: [head.*]}"); !errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), "skip: head.* is the name of no weight of the model, such as layers.0.weight") {
		t.Error(err)
	}
	more := filepath.Join(dir, "more.safetensors")
	if err := db.Export(s.Manifest.ID, more); err != nil { // the optimizer's state, too
		t.Fatal(err)
	}
	vars = variables(t, 6)
	if x, err = open(more); err != nil || !strings.HasSuffix(x.Fit(), "more.safetensors: 4 of 4 tensors; 7 in the file that the model has not") {
		t.Errorf("%v, %v", x, err)
	}
}

// A weight may be outside of the prefix that was found, as the head is in files of Hugging Face's models, plain and compressed. A
// prefix that is given is for all.
func TestWeightOutsideOfThePrefix(t *testing.T) {
	vars := variables(t, 5)
	_, s := saved(t, vars)
	dir := t.TempDir()
	file, packed := filepath.Join(dir, "w.safetensors"), filepath.Join(dir, "w.safetensors.gz")
	for _, name := range []string{file, packed} {
		err := s.Export(t.Context(), name, nil, func(x checkpoint.Tensor) string {
			switch {
			case x.Role != "parameter":
				return ""
			case x.Name == "layers.1.weight":
				return x.Name
			}
			return "model." + x.Name
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{file, packed} {
		x, err := initial.Open(t.Context(), name, seed, vars)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if got, want := x.Fit(), name+": 4 of 4 tensors; named model.*"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	a, errA := initial.Hash(t.Context(), file, vars)
	b, errB := initial.Hash(t.Context(), packed, vars)
	if a != b || errA != nil || errB != nil {
		t.Errorf("%s and %s: %v, %v", a, b, errA, errB)
	}
	if _, err := initial.Open(t.Context(), file+":model.", seed, vars); err == nil || !strings.Contains(err.Error(), "1 weight is missing: model.layers.1.weight; ") || !strings.HasSuffix(err.Error(), ", skip: [layers.1.weight]}") {
		t.Error(err)
	}
}

// What is wrong with a large model takes a line, and not a list of all weights.
func TestManyWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.safetensors")
	var vars []*graph.Value
	var entries []safetensors.Entry
	for i := range 300 {
		name := fmt.Sprintf("layers.%d.weight", i)
		vars = append(vars, &graph.Value{Name: name, Meta: shape.F32(2), Role: graph.Parameter})
		if i < 150 {
			entries = append(entries, safetensors.Entry{Name: name, Meta: shape.F32(1 + i%2), Bytes: make([]byte, 4*(1+i%2))})
		}
	}
	if err := safetensors.WriteFile(file, entries, nil); err != nil {
		t.Fatal(err)
	}
	_, err := initial.Open(t.Context(), file, seed, vars)
	const want = "does not fit the model: 75 weights are of another shape: layers.0.weight is [1], the model has [2]; layers.2.weight is [1], the model has [2]; layers.4.weight is [1], the model has [2] and 72 more; " +
		"150 weights are missing: layers.150.weight, layers.151.weight, layers.152.weight and 147 more; "
	if !errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), want) || len(err.Error()) > 700 {
		t.Error(err)
	}
}

// A checkpoint gives every variable in its shape; of losses it may have others.
func TestFromSnapshot(t *testing.T) {
	vars := variables(t, 5)
	_, s := saved(t, vars)
	read := initial.FromSnapshot(s, nil)
	for i, v := range vars {
		got := make([]byte, v.Meta.Bytes())
		if err := read(v, got); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i + 1)}, len(got))) {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	if text := initial.Misfit(s, vars); text != "" {
		t.Error(text)
	}
	if text := initial.Misfit(s, variables(t, 6)); !strings.Contains(text, " is f32[5,4], but in the model it is f32[6,4]") {
		t.Errorf("another model: %q", text)
	}
	for _, v := range variables(t, 6) {
		have, _ := s.Tensor(v.Name)
		err := read(v, make([]byte, v.Meta.Bytes()))
		if same := have.Meta.Equal(v.Meta); same && err != nil || !same && !errors.Is(err, initial.ErrChanged) {
			t.Errorf("%s of another model: %v", v.Name, err)
		}
	}
	ring := &graph.Value{Name: models.LossRing, Meta: shape.F32(99), Role: graph.Metric}
	dirty := bytes.Repeat([]byte{1}, int(ring.Meta.Bytes()))
	if err := read(ring, dirty); err != nil || bytes.ContainsRune(dirty, 1) {
		t.Errorf("losses of other epochs: %v", err)
	}
	if err := read(&graph.Value{Name: "none", Meta: shape.F32(1), Role: graph.Parameter}, make([]byte, 4)); !errors.Is(err, initial.ErrChanged) {
		t.Errorf("a variable that the checkpoint lacks: %v", err)
	}
}

// Weights that are not finite are refused, by tensor and element: of a file, and of a
// checkpoint that an earlier version of this program took in.
func TestWeightsAreFinite(t *testing.T) {
	w := &graph.Value{Name: "w", Meta: shape.F32(3), Role: graph.Parameter}
	weights := []float32{1, 2, float32(math.NaN())}
	file := filepath.Join(t.TempDir(), "w.safetensors")
	if err := safetensors.WriteFile(file, []safetensors.Entry{{Name: "w", Meta: w.Meta, Bytes: shape.Bytes(weights)}}, nil); err != nil {
		t.Fatal(err)
	}
	x, err := initial.Open(t.Context(), file, seed, []*graph.Value{w})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	dst := make([]byte, 12)
	if err := x.Read(w, dst); !errors.Is(err, initial.ErrInit) || !errors.Is(err, safetensors.ErrFinite) || !strings.Contains(err.Error(), file+": tensor w F32[3]: a weight is not finite: element 2 is NaN") {
		t.Errorf("a file: %v", err)
	}
	db, _ := saved(t, nil)
	id, err := db.Save(t.Context(), checkpoint.Manifest{Step: 4}, constant{w, weights})
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := initial.FromSnapshot(s, nil)(w, dst); !errors.Is(err, safetensors.ErrFinite) || !strings.Contains(err.Error(), "checkpoint 2 of step 4: tensor w: a weight is not finite: element 2 is NaN") {
		t.Errorf("a checkpoint: %v", err)
	}
	losses := &graph.Value{Name: "w", Meta: w.Meta, Role: graph.Metric}
	if err := initial.FromSnapshot(s, nil)(losses, dst); err != nil {
		t.Errorf("metrics may be anything: %v", err)
	}
}

// constant is a source of one variable.
type constant struct {
	v       *graph.Value
	weights []float32
}

func (c constant) Tensors() []checkpoint.Tensor {
	return []checkpoint.Tensor{{Name: c.v.Name, Meta: c.v.Meta, Role: c.v.Role.String()}}
}

func (c constant) Read(_ string, off int64, dst []byte) error {
	copy(dst, shape.Bytes(c.weights)[off:])
	return nil
}
