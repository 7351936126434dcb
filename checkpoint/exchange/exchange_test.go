package exchange_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/internal/testall"
)

// gpt2Folder is a small GPT-2 in Hugging Face's layout; its README says how it was made.
const gpt2Folder = "../pretrained/testdata/gpt2"

// importGPT2 imports it into a new run folder.
func importGPT2(t *testing.T, o berth.ImportOptions) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "r")
	m, err := berth.Import(t.Context(), gpt2Folder, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if m.Parameters != 11904 || len(m.Notes) > 0 {
		t.Errorf("%d parameters, notes %q", m.Parameters, m.Notes)
	}
	return dir
}

// runConfig is the config of a run folder on devices.
func runConfig(t *testing.T, dir, devices string) *configs.Config {
	t.Helper()
	c, err := configs.Load(filepath.Join(dir, "config.yaml"), configs.Overlay{Flags: map[string]string{"devices": devices}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// torchLogits are token ids, and PyTorch's logits for each.
func torchLogits(t *testing.T) (ids []int32, logits []float32) {
	t.Helper()
	f, err := safetensors.Open(t.Context(), "../pretrained/testdata/logits.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ids, err = f.Int32("ids"); err == nil {
		logits, err = f.Float32("logits")
	}
	if err != nil {
		t.Fatal(err)
	}
	return ids, logits
}

// An imported model has PyTorch's logits, to 1e-4, on each ISA level and on two
// devices as on one. They are compared as logarithms of probabilities.
func TestImportedLogits(t *testing.T) {
	dir := importGPT2(t, berth.ImportOptions{})
	ids, logits := torchLogits(t)
	lengths := []int{1, 2, 17, 32}
	if testall.Wanted() {
		lengths = nil
		for n := range ids {
			lengths = append(lengths, n+1)
		}
	}
	var paths []string
	for _, n := range lengths {
		paths = append(paths, filepath.Join(t.TempDir(), fmt.Sprintf("%d.bin", n)))
		var text []byte
		for _, id := range ids[:n] {
			text = binary.LittleEndian.AppendUint16(text, uint16(id))
		}
		if err := os.WriteFile(paths[len(paths)-1], text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, level := range []string{"amx", "avx512", "avx2", "generic"} {
		t.Setenv("BERTH_CPU", level)
		for _, devices := range []string{"cpu:1", "cpu:2"} {
			run, err := berth.OpenTrained(t.Context(), runConfig(t, dir, devices), berth.Weights{Dir: dir}, berth.TrainedOptions{})
			if errors.Is(err, device.ErrEnvironment) {
				t.Logf("%v", err)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, path := range paths {
				sameLogits(t, run, path, logits[(lengths[i]-1)*300:lengths[i]*300], level+" "+devices)
			}
			if err := run.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// sameLogits compares the answer for the last token of a file with logits.
func sameLogits(t *testing.T, run *berth.Trained, path string, logits []float32, where string) {
	t.Helper()
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x))
	}
	_, err := run.Predict(t.Context(), path, func(p berth.Prediction) error {
		for i, v := range p.Values {
			want := float64(logits[i]) - math.Log(sum)
			if got := math.Log(float64(v)); !(math.Abs(got-want) <= 1e-4) {
				return fmt.Errorf("token %d: %v, PyTorch has %v", i, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s, %s: %v", where, filepath.Base(path), err)
	}
}

// A model that was imported and exported has the same tensors, config and tokenizer.
func TestImportAndExport(t *testing.T) {
	dir, out := importGPT2(t, berth.ImportOptions{}), filepath.Join(t.TempDir(), "out")
	x, err := berth.Export(t.Context(), berth.Weights{Dir: dir}, out)
	if err != nil || x.Used.Step != 0 || len(x.Notes) > 0 {
		t.Fatalf("%+v, %v", x, err)
	}
	for _, name := range []string{"config.json", "tokenizer.json"} {
		got, err := os.ReadFile(filepath.Join(out, name))
		want, e := os.ReadFile(filepath.Join(gpt2Folder, name))
		if err := errors.Join(err, e); err != nil || string(got) != string(want) {
			t.Errorf("%s: got %s, want %s, %v", name, got, want, err)
		}
	}
	a, b := openTensors(t, gpt2Folder), openTensors(t, out)
	if len(a.Tensors()) != len(b.Tensors()) {
		t.Fatalf("%d tensors, want %d", len(b.Tensors()), len(a.Tensors()))
	}
	for _, x := range a.Tensors() {
		got, want := make([]byte, x.Bytes()), make([]byte, x.Bytes())
		if err := errors.Join(a.Read(x.Name, want), b.Read(x.Name, got)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v has changed, %v", x, err)
		}
	}
}

func openTensors(t *testing.T, dir string) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open(t.Context(), filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// An imported model evaluates on any text, in windows of any length, and trains on it;
// its own keys stay.
func TestImportedModelTrains(t *testing.T) {
	dir := importGPT2(t, berth.ImportOptions{Overlay: configs.Overlay{Set: []string{"optimizer.lr=0.01", "train.batch=4"}}})
	path := filepath.Join(dir, "config.yaml")
	load := func(set ...string) *configs.Config {
		t.Helper()
		text := filepath.Join(t.TempDir(), "text.txt")
		if err := os.WriteFile(text, []byte(strings.Repeat("To be, or not to be, that is the question.\n", 60)), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := configs.Load(path, configs.Overlay{Set: append([]string{"data.path=" + text, "model.dropout=0"}, set...)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	eval := func(c *configs.Config) berth.Evaluation {
		t.Helper()
		run, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := run.Eval(t.Context())
		if err := errors.Join(err, run.Close()); err != nil {
			t.Fatal(err)
		}
		return e
	}
	before := eval(load("data.context=16"))
	if before.Part != "all" || before.BitsPerByte == nil {
		t.Errorf("%+v", before)
	}
	if _, err := berth.OpenTrained(t.Context(), load("model.heads=4"), berth.Weights{Dir: dir}, berth.TrainedOptions{}); !errors.Is(err, berth.ErrChanged) || !strings.Contains(err.Error(), "model.heads was 2, is 4") {
		t.Errorf("other heads: %v", err)
	}
	run, err := berth.Open(t.Context(), load("train.steps=20"), berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = run.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true})
	if err := errors.Join(err, run.Close()); err != nil {
		t.Fatal(err)
	}
	if after := eval(runConfig(t, dir, "cpu:1")); after.Loss > before.Loss/2 || after.Part != "validation" {
		t.Errorf("the loss was %v, and is %v of %s", before.Loss, after.Loss, after.Part)
	}
	if _, err := berth.Import(t.Context(), gpt2Folder, dir, berth.ImportOptions{}); !errors.Is(err, berth.ErrHasCheckpoint) {
		t.Errorf("an import over a run: %v", err)
	}
}

// An import that fails leaves nothing, whatever it had written.
func TestImportLeavesNothing(t *testing.T) {
	root, over := t.TempDir(), errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	for _, c := range []struct {
		name string
		opt  berth.ImportOptions
		want error
	}{
		{"another width", berth.ImportOptions{Overlay: configs.Overlay{Set: []string{"model.width=32"}}}, berth.ErrOptions},
		{"another tokenizer", berth.ImportOptions{Overlay: configs.Overlay{Set: []string{"data.tokenizer=char"}}}, berth.ErrOptions},
		{"a mistake", berth.ImportOptions{Overlay: configs.Overlay{Set: []string{"train.batch=0"}}}, configs.ErrInvalid},
		{"stopped", berth.ImportOptions{Progress: func(float64) { cancel(over) }}, context.Canceled},
	} {
		if _, err := berth.Import(ctx, gpt2Folder, filepath.Join(root, "runs", "r"), c.opt); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
			t.Errorf("%s: left are %v, %v", c.name, left, err)
		}
	}
}
