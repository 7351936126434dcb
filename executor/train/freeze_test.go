package train_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// frozen is a model most of whose weights do not train.
const frozen = `
data: {source: digits, split: 0.1}
model: {preset: mlp, hidden: [512, 256]}
train: {epochs: 2, batch: 64, microbatches: 2}
optimizer: {freeze: ["layers.0.*", "layers.1.*"]}
`

// exported trains a step of frozen's model and exports the weights.
func exported(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, frozen), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	return exportOf(t, dir)
}

// exportOf exports the weights of a run's first checkpoint.
func exportOf(t *testing.T, dir string) string {
	t.Helper()
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	list, _, err := db.List()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "w.safetensors")
	if err := db.Export(list[0].ID, file, "parameter"); err != nil {
		t.Fatal(err)
	}
	return file
}

// Weights that do not train keep their bytes. They have no gradient and no
// optimizer state.
func TestFrozenWeightsStay(t *testing.T) {
	dir, file := t.TempDir(), exported(t)
	r := runtest.Open(t, frozen)
	rep := runtest.Train(t, r, berth.TrainOptions{Dir: dir, MaxSteps: 3, Init: file})
	before, after := runtest.Contents(t, filepath.Dir(file), 1), runtest.Contents(t, dir, rep.Steps)
	for name, b := range before {
		stays := name == "layers.0.weight" || name == "layers.0.bias" || name == "layers.1.weight" || name == "layers.1.bias"
		if moves := name == "layers.2.weight" || name == "layers.2.bias"; stays && !bytes.Equal(b, after[name]) || moves && bytes.Equal(b, after[name]) {
			t.Errorf("%s: stays %v, moves %v", name, stays, moves)
		}
	}
	for name := range after {
		if ok, _ := filepath.Match("layers.[01].*/*", name); ok {
			t.Errorf("%s is state of a weight that does not train", name)
		}
	}
	whole := runtest.Open(t, frozen, "optimizer.freeze=[]")
	if few, all := r.Plan().Memory[0].Peak, whole.Plan().Memory[0].Peak; few > all/2 {
		t.Errorf("a step takes %d bytes, %d if all weights train", few, all)
	}
}

// streamed counts the bytes that a dumped run read from a store.
func streamed(t *testing.T, dump string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dump, "ledger.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("stream-in"))
}

// Under a limit, weights that do not train are read again from the file and, in a
// resumed run, from its checkpoints, of which newer ones replace older ones.
func TestFrozenWeightsStream(t *testing.T) {
	file := exported(t)
	want := runtest.Train(t, runtest.Open(t, frozen), berth.TrainOptions{Init: file, MaxSteps: 4})
	ways := []string{"checkpoint.staging=1MiB", "checkpoint.staging=whole"}
	for _, more := range ways[:testall.Or(1, len(ways))] {
		dir, dump := t.TempDir(), t.TempDir()
		limits := []string{"devices.memory=620KiB", "checkpoint.keep.last=1", "checkpoint.keep.best=0", "checkpoint.every=1"}
		runtest.Train(t, runtest.Open(t, frozen, limits...), berth.TrainOptions{Dir: dir, Init: file, MaxSteps: 2, Dump: dump})
		if streamed(t, dump) < 8 {
			t.Error("weights that do not train are not read again")
		}
		dump = t.TempDir()
		got := runtest.Train(t, runtest.Open(t, frozen, append(limits, more)...), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 4, Dump: dump})
		if got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("%s: weights %s, without a limit %s", more, got.WeightsSHA256, want.WeightsSHA256)
		}
		if streamed(t, dump) < 8 {
			t.Errorf("%s: a resumed run does not read its checkpoints again", more)
		}
	}
}

// narrowed writes the weights of a file as bfloat16, compressed, and as the float32
// that those become.
func narrowed(t *testing.T, file string) (bf16, float32s string) {
	t.Helper()
	f, err := safetensors.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	header, contents := map[string]any{}, []byte(nil)
	var entries []safetensors.Entry
	for _, x := range f.Tensors() {
		v, err := f.Float32(x.Name)
		if err != nil {
			t.Fatal(err)
		}
		begin := len(contents)
		for i := range v {
			high := math.Float32bits(v[i]) >> 16
			v[i] = math.Float32frombits(high << 16)
			contents = binary.LittleEndian.AppendUint16(contents, uint16(high))
		}
		header[x.Name] = map[string]any{"dtype": "BF16", "shape": x.Shape, "data_offsets": []int{begin, len(contents)}}
		entries = append(entries, safetensors.Entry{Name: x.Name, Meta: shape.Meta{DType: shape.Float32, Shape: x.Shape}, Bytes: shape.Bytes(v)})
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	for _, b := range [][]byte{binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, contents} {
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	bf16, float32s = filepath.Join(t.TempDir(), "w.gz"), filepath.Join(t.TempDir(), "w")
	if err := errors.Join(w.Close(), os.WriteFile(bf16, packed.Bytes(), 0o644), safetensors.WriteFile(float32s, entries, nil)); err != nil {
		t.Fatal(err)
	}
	return bf16, float32s
}

// Tied weights that do not train stream from a compressed file of bfloat16, to one
// device and to two that both use them.
func TestTiedWeightsStream(t *testing.T) {
	text, dir := runtest.Tied(t), t.TempDir()
	runtest.Train(t, runtest.Open(t, text), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	bf16, float32s := narrowed(t, exportOf(t, dir))
	freeze := []string{"optimizer.freeze=[wte.*, h.*]", "partition.recompute=none"}
	want := runtest.Train(t, runtest.Open(t, text, freeze...), berth.TrainOptions{Init: float32s, MaxSteps: 3})
	for devices, least := range map[string]int{"cpu:1": 50, "cpu:2": 25} { // of 25 weights; two devices have room for nearly all
		dump := t.TempDir()
		r := runtest.Open(t, text, append(freeze, "devices.use="+devices, "devices.memory=64KiB")...)
		got := runtest.Train(t, r, berth.TrainOptions{Init: bf16, MaxSteps: 3, Dump: dump})
		if got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("%s: weights %s, without a limit %s", devices, got.WeightsSHA256, want.WeightsSHA256)
		}
		if n := streamed(t, dump); n < least {
			t.Errorf("%s: weights are read %d times", devices, n)
		}
	}
}

// A file of weights that is cut during the run ends it as a failure, not as a mistake.
// Its checkpoints hold all that going on takes.
func TestFileOfWeightsIsCut(t *testing.T) {
	file, dir := exported(t), t.TempDir()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(whole); errors.Join(err, z.Close()) != nil {
		t.Fatal(err)
	}
	limits := []string{"devices.memory=620KiB", "checkpoint.every=1"}
	for name, text := range map[string][]byte{"cut.safetensors": whole, "cut.safetensors.gz": packed.Bytes()} {
		init, run := filepath.Join(dir, name), filepath.Join(dir, name+".run")
		if err := os.WriteFile(init, text, 0o644); err != nil {
			t.Fatal(err)
		}
		cut := func(berth.Saved) {
			if err := os.Truncate(init, 100_000); err != nil {
				t.Error(err)
			}
		}
		_, err := runtest.Open(t, frozen, limits...).Train(t.Context(), berth.TrainOptions{Dir: run, Init: init, Observer: &berth.Observer{Saved: cut}})
		var lost *berth.WeightsError
		if !errors.As(err, &lost) || berth.IsUsage(err) || lost.Saved == 0 || strings.Count(err.Error(), name) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		runtest.Train(t, runtest.Open(t, frozen, limits...), berth.TrainOptions{Dir: run, Resume: true, MaxSteps: lost.Saved + 1})
	}
}
