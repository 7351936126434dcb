package initial_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
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
		file + ":model.":        "is missing",
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

func TestSplitPath(t *testing.T) {
	colon := filepath.Join(t.TempDir(), "a:b")
	if err := os.WriteFile(colon, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for init, want := range map[string][2]string{
		"w.safetensors":        {"w.safetensors", ""},
		"w.safetensors:model.": {"w.safetensors", "model."},
		colon:                  {colon, ""},
		colon + ":x.":          {colon, "x."},
	} {
		if path, prefix := initial.SplitPath(init); path != want[0] || prefix != want[1] {
			t.Errorf("%s: %q, %q", init, path, prefix)
		}
	}
}

// A checkpoint gives every variable in its shape; of losses it may have others.
func TestFromSnapshot(t *testing.T) {
	vars := variables(t, 5)
	_, s := saved(t, vars)
	read := initial.FromSnapshot(s)
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
	if err := initial.FromSnapshot(s)(w, dst); !errors.Is(err, safetensors.ErrFinite) || !strings.Contains(err.Error(), "checkpoint 2 of step 4: tensor w: a weight is not finite: element 2 is NaN") {
		t.Errorf("a checkpoint: %v", err)
	}
	losses := &graph.Value{Name: "w", Meta: w.Meta, Role: graph.Metric}
	if err := initial.FromSnapshot(s)(losses, dst); err != nil {
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
