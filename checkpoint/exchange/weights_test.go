package exchange_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// answersOf are a model's answers about a file, or about its validation part.
func answersOf(t *testing.T, m *berth.Trained, samples string) (all []berth.Prediction) {
	t.Helper()
	if _, err := m.Predict(t.Context(), samples, func(p berth.Prediction) error {
		all = append(all, p)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// A run that is made of an exported file of weights answers with the same bits as the run that it
// is of, and trains further.
func TestExportedWeightsBecomeARun(t *testing.T) {
	testall.Long(t)
	table := strings.Replace(strings.Replace(tableConfig, "PATH", writeTable(t, tableRows(160)), 1), "LABEL", "label: left, ignore: [id, price, rent, hot, wet]", 1)
	text := strings.Replace(runtest.Tied(t), "context: 8", "context: 8, tokenizer: 'bpe:270'", 1)
	for name, config := range map[string]string{"images": runtest.Everything, "table": table, "text": text, "lines": linesConfig(t, runtest.Tied(t))} {
		t.Run(name, func(t *testing.T) {
			dir, m := trainedRun(t, config)
			file := filepath.Join(t.TempDir(), "w.safetensors")
			if _, err := berth.ExportSafetensors(t.Context(), berth.Weights{Dir: dir}, file); err != nil {
				t.Fatal(err)
			}
			again := filepath.Join(t.TempDir(), "again")
			share := 0.0
			x, err := berth.Import(t.Context(), file, again, berth.ImportOptions{Progress: func(now float64) { share = now }})
			if err != nil {
				t.Fatal(err)
			}
			if share != 1 || x.Config.Name != "again" {
				t.Errorf("the last progress is %v, the name %q", share, x.Config.Name)
			}
			c, err := configs.Load(filepath.Join(again, "config.yaml"), configs.Overlay{})
			if err != nil {
				t.Fatal(err)
			}
			other, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: again}, berth.TrainedOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if got, want := answersOf(t, other, ""), answersOf(t, m, ""); !reflect.DeepEqual(got, want) {
				t.Errorf("answers %v, expected %v", got[0], want[0])
			}
			r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			rep, err := r.Train(t.Context(), berth.TrainOptions{Dir: again, Resume: true, MaxSteps: 2})
			if err != nil || rep.Steps != 2 {
				t.Errorf("it does not train further: %v", err)
			}
		})
	}
}

// rewritten is a file of weights with other metadata, or other tensors.
func rewritten(t *testing.T, path string, change func(meta map[string]string, entries []safetensors.Entry) []safetensors.Entry) string {
	t.Helper()
	f, err := safetensors.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var entries []safetensors.Entry
	for _, x := range f.Tensors() {
		v, err := f.Float32(x.Name)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, safetensors.Entry{Name: x.Name, Meta: shape.F32(x.Shape...), Bytes: shape.Bytes(v)})
	}
	meta := maps.Clone(f.Metadata())
	entries = change(meta, entries)
	out := filepath.Join(t.TempDir(), "w.safetensors")
	if err := safetensors.WriteFile(out, entries, meta); err != nil {
		t.Fatal(err)
	}
	return out
}

// A file that does not become a run is refused, and nothing is left.
func TestWeightsThatBecomeNoRun(t *testing.T) {
	dir, _ := trainedRun(t, runtest.Everything)
	good := filepath.Join(t.TempDir(), "w.safetensors")
	if _, err := berth.ExportSafetensors(t.Context(), berth.Weights{Dir: dir}, good); err != nil {
		t.Fatal(err)
	}
	const key = "berth.fitted"
	said := func(from, to string) func(map[string]string, []safetensors.Entry) []safetensors.Entry {
		return func(meta map[string]string, entries []safetensors.Entry) []safetensors.Entry {
			if !strings.Contains(meta[key], from) {
				t.Fatalf("no %s in %s", from, meta[key])
			}
			meta[key] = strings.Replace(meta[key], from, to, 1)
			return entries
		}
	}
	for what, x := range map[string]struct {
		change func(map[string]string, []safetensors.Entry) []safetensors.Entry
		want   string
	}{
		"nothing said": {func(meta map[string]string, entries []safetensors.Entry) []safetensors.Entry {
			delete(meta, key)
			return entries
		}, "its metadata has no berth.fitted, which trainer export writes; to begin a run with its weights, use trainer train CONFIG --init FILE"},
		"later":   {said(`"Version":1`, `"Version":2`), "has version 2, and this program reads version 1"},
		"damaged": {said(`"Version":1`, `"Version":`), "berth.fitted in its metadata is damaged"},
		"wrong":   {said(`"Inputs":[`, `"Inputs":[],"Nothing":[`), "berth.fitted in its metadata is damaged: invalid dataset: samples have 0 inputs, expected 1"},
		"config":  {said(`epochs: 3`, `epochs: x`), "train.epochs"},
		"layers":  {said(`channels: 4`, `channels: 5`), "its weights are not those of its config: conv.weight is [4,1,3,3], the model has [5,1,3,3]"},
		"a tensor": {func(_ map[string]string, entries []safetensors.Entry) []safetensors.Entry {
			return slices.DeleteFunc(entries, func(e safetensors.Entry) bool { return e.Name == "norm.running_var" })
		}, "norm.running_var is missing"},
	} {
		t.Run(what, func(t *testing.T) {
			again := filepath.Join(t.TempDir(), "again")
			_, err := berth.Import(t.Context(), rewritten(t, good, x.change), again, berth.ImportOptions{})
			if err == nil || !berth.IsUsage(err) || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, expected %q", err, x.want)
			}
			if _, err := os.Stat(again); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something is left: %v", err)
			}
		})
	}
	if _, err := berth.Import(t.Context(), good, filepath.Join(t.TempDir(), "x"), berth.ImportOptions{Overlay: configs.Overlay{Set: []string{"model.preset=mlp"}}}); err == nil || !berth.IsUsage(err) {
		t.Errorf("another model: %v", err)
	}
}
