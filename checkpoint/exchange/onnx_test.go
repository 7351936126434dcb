package exchange_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/ort"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// trainedRun trains a config for some steps, and gives the run folder and the opened model.
func trainedRun(t *testing.T, text string, set ...string) (dir string, m *berth.Trained) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	runtest.Train(t, runtest.Open(t, text, set...), berth.TrainOptions{Dir: dir, MaxSteps: 30})
	c, err := configs.Load(filepath.Join(dir, "config.yaml"), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	m, err = berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir, m
}

// inONNX exports a run and answers with ONNX Runtime.
func inONNX(t *testing.T, dir string, feeds map[string]ort.Tensor) map[string]ort.Tensor {
	t.Helper()
	ort.Need(t)
	path := filepath.Join(t.TempDir(), "m.onnx")
	if _, err := berth.ExportONNX(t.Context(), berth.Weights{Dir: dir}, path); err != nil {
		t.Fatal(err)
	}
	r := ort.Run(t, []ort.Job{{Model: path, Feeds: feeds}})[0]
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Outputs
}

// near compares numbers of ONNX Runtime with those of predict.
func near(t *testing.T, got []float64, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d numbers, expected %d", len(got), len(want))
	}
	for i, b := range want {
		if d := math.Abs(got[i] - float64(b)); !(d <= 1e-4+1e-4*math.Abs(float64(b))) {
			t.Fatalf("number %d is %v, expected %v", i, got[i], b)
		}
	}
}

// tableRows are rows with each kind of column, some of whose values are missing, and labels.
func tableRows(n int) []map[string]any {
	r := rand.New(rand.NewPCG(3, 3))
	begin := time.Date(1964, 2, 27, 0, 0, 0, 0, time.UTC)
	rows := make([]map[string]any, n)
	for i := range rows {
		age := math.Round(1000*r.NormFloat64()) / 100
		row := map[string]any{
			"id": fmt.Sprintf("K%04d", i), "age": age, "big": 1e7 + r.Float64(),
			"member": []string{"yes", "no"}[r.IntN(2)], "seen": begin.AddDate(0, 0, r.IntN(40000)).Add(time.Duration(r.IntN(24*60)) * time.Minute),
			"town": []string{"Oslo", "Köln", "null island", "a,b", "Rome"}[min(4, r.IntN(7))], "size": []string{"XL", "1.0", "2"}[r.IntN(3)],
			"left": []string{"stays", "leaves", "unsure"}[(i+r.IntN(2))%3], "price": 1e5 + 1e4*age, "rent": 3 * age, "hot": i % 2, "wet": (i / 2) % 2,
		}
		for _, name := range []string{"age", "member", "seen", "town"} {
			if r.IntN(8) == 0 {
				row[name] = nil
			}
		}
		rows[i] = row
	}
	return rows
}

// tableColumns are the columns of tableRows.
var tableColumns = []string{"id", "age", "big", "member", "seen", "town", "size", "left", "price", "rent", "hot", "wet"}

// writeTable writes rows as CSV.
func writeTable(t *testing.T, rows []map[string]any) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(strings.Join(tableColumns, ",") + "\n")
	for _, row := range rows {
		for i, name := range tableColumns {
			text := fmt.Sprint(row[name])
			switch v := row[name].(type) {
			case nil:
				text = ""
			case time.Time:
				text = v.Format("2006-01-02 15:04:05")
			}
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q", text)
		}
		b.WriteByte('\n')
	}
	path := filepath.Join(t.TempDir(), "table.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// feedsOf are the same rows as inputs of an exported model.
func feedsOf(rows []map[string]any) map[string]ort.Tensor {
	numbers := func(name string, of func(any) float64) []float64 {
		out := make([]float64, len(rows))
		for i, row := range rows {
			if out[i] = math.NaN(); row[name] != nil {
				out[i] = of(row[name])
			}
		}
		return out
	}
	texts := func(name string) ort.Tensor {
		out := make([]string, len(rows))
		for i, row := range rows {
			if row[name] != nil {
				out[i] = row[name].(string)
			}
		}
		return ort.Texts(out, len(rows), 1)
	}
	float := func(v any) float64 { return v.(float64) }
	return map[string]ort.Tensor{
		"age":    ort.Numbers("float32", numbers("age", float), len(rows), 1),
		"big":    ort.Numbers("float32", numbers("big", float), len(rows), 1),
		"member": ort.Numbers("float32", numbers("member", func(v any) float64 { return map[any]float64{"yes": 1}[v] }), len(rows), 1),
		"seen":   ort.Numbers("float64", numbers("seen", func(v any) float64 { return float64(v.(time.Time).Unix()) }), len(rows), 1),
		"town":   texts("town"), "size": texts("size"),
	}
}

const tableConfig = `
data: {source: csv, path: PATH, LABEL, columns: {town: {top: 3}, size: {kind: category}}}
model: {preset: mlp, hidden: [8]}
train: {epochs: 3, batch: 16}
optimizer: {name: adamw, lr: 0.05}
`

// A table's model takes raw rows, also words that training never saw.
func TestExportedTable(t *testing.T) {
	testall.Long(t)
	rows := tableRows(160)
	path := writeTable(t, rows)
	asked := tableRows(40)
	for i, word := range []string{"Paris", "N/A", "nUlL", ""} {
		asked[i]["town"] = word
	}
	for name, x := range map[string]struct{ label, ignored, output string }{
		"classification": {"label: left", "[id, price, rent, hot, wet]", "probabilities"},
		"regression":     {"label: [price, rent], task: regression", "[id, left, hot, wet]", "prediction"},
		"multilabel":     {"label: [hot, wet], task: multilabel", "[id, left, price, rent]", "probabilities"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(strings.Replace(tableConfig, "PATH", path, 1), "LABEL", x.label+", ignore: "+x.ignored, 1)
			dir, m := trainedRun(t, text)
			var want []float32
			var labels []any
			if _, err := m.PredictRows(t.Context(), asked, func(p berth.Prediction) error {
				want, labels = append(want, p.Values...), append(labels, p.Label)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			out := inONNX(t, dir, feedsOf(asked))
			near(t, out[x.output].Floats(t), want)
			if got := out["label"].Data; name == "classification" && !slices.Equal(got, labels) {
				t.Errorf("labels %v, expected %v", got, labels)
			}
		})
	}
}

// valueOf reads a field of the first samples of a part.
func valueOf(field datasets.Field, b []byte, n int) ort.Tensor {
	dims := append([]int{n}, field.Meta.Shape...)
	if field.Meta.DType == shape.Int32 {
		return ort.Numbers("int64", shape.View[int32](b)[:n*field.Meta.Elems()], dims...)
	}
	return ort.Numbers("float32", shape.View[float32](b)[:n*field.Meta.Elems()], dims...)
}

// Images, and tables of numbers without a header, go in as they are read.
func TestExportedNumbers(t *testing.T) {
	testall.Long(t)
	var table strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		x, y := 1e4+10*r.NormFloat64(), r.NormFloat64()
		fmt.Fprintf(&table, "%.3f,%.3f,%d\n", x, y, r.IntN(2))
	}
	path := filepath.Join(t.TempDir(), "numbers.csv")
	if err := os.WriteFile(path, []byte(table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	numbers := fmt.Sprintf("data: {source: csv, path: %s, header: false, label: 2, split: 0.4, standardize: true}\n", path) +
		"model: {preset: mlp, hidden: [4]}\ntrain: {epochs: 2, batch: 8}\noptimizer: {name: sgd, lr: 0.1}\n"
	for name, text := range map[string]string{"images": runtest.Everything, "numbers": numbers} {
		t.Run(name, func(t *testing.T) {
			dir, m := trainedRun(t, text)
			var want []float32
			n := 0
			if _, err := m.Predict(t.Context(), "", func(p berth.Prediction) error {
				want, n = append(want, p.Values...), n+1
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			data, err := specs.OpenData(t.Context(), runtest.Parsed(t, text), specs.DataOptions{})
			if err != nil {
				t.Fatal(err)
			}
			part := data.Val
			dst := part.Alloc(n)
			if _, err := part.Read(datasets.Cursor{}, n, dst); err != nil {
				t.Fatal(err)
			}
			if s := data.Info.Scaling; s != nil { // the file's own numbers
				s.Undo(shape.View[float32](dst[0]))
			}
			out := inONNX(t, dir, map[string]ort.Tensor{"input": valueOf(part.Fields()[0], dst[0], n)})
			near(t, out["probabilities"].Floats(t), want)
		})
	}
}

// Models of text take ids and give the logits of each position. The last ones are those of
// predict, whether the samples are windows of a text or lines of any length.
func TestExportedText(t *testing.T) {
	testall.Long(t)
	windows := runtest.Tied(t)
	lines := linesConfig(t, windows)
	const gpt = "{preset: gpt, layers: 2, heads: 2, width: 16, dropout: 0.1}"
	loops := strings.Replace(windows, gpt, "{layers: [{type: embedding, width: 6}, {type: lstm, units: 8}, {type: dense, units: 21}]}", 1)
	short := filepath.Join(t.TempDir(), "short.txt")
	if err := os.WriteFile(short, []byte("12 more\n1 m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ids := filepath.Join(t.TempDir(), "ids.bin")
	var b []byte
	for id := range uint16(16) {
		b = binary.LittleEndian.AppendUint16(b, id)
	}
	if err := os.WriteFile(ids, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct{ config, samples string }{
		"windows": {windows, ids}, "lines": {lines, short}, "loops": {loops, ids},
	} {
		t.Run(name, func(t *testing.T) { sameText(t, x.config, x.samples) })
	}
}

// linesConfig is a config of windows of a text for lines of another text.
func linesConfig(t *testing.T, windows string) string {
	text := ""
	for i := range 60 {
		text += fmt.Sprintf("%d more\n", i*i%117)
	}
	path := filepath.Join(t.TempDir(), "lines.txt")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("source: text, path: [^,]*, context: 8").ReplaceAllString(windows, "source: lines, path: "+path+", buckets: [6, 12]")
}

// sameText compares the answers about the samples of a file.
func sameText(t *testing.T, config, samples string) {
	dir, m := trainedRun(t, config)
	var want [][]float32
	if _, err := m.Predict(t.Context(), samples, func(p berth.Prediction) error {
		want = append(want, p.Values)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	spec, err := specs.Inputs(t.Context(), runtest.Parsed(t, config), samples)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := datasets.OpenInputs(t.Context(), spec, m.Info(), samples)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		dst := part.Alloc(len(want))
		n, err := part.Read(datasets.Cursor{}, len(want), dst)
		if err != nil {
			t.Fatal(err)
		}
		field := part.Fields()[0]
		positions := len(dst[0]) / len(want) / field.Meta.DType.Size()
		field.Meta.Shape = shape.Of(positions)
		out := inONNX(t, dir, map[string]ort.Tensor{"ids": valueOf(field, dst[0], n)})["logits"]
		vocab := m.Info().Classes
		if !slices.Equal(out.Dims, []int{n, positions, vocab}) {
			t.Fatalf("logits %v of %d samples", out.Dims, n)
		}
		for s := range n {
			last := positions - 1
			if len(dst) > 1 {
				last = int(shape.View[int32](dst[1])[s]) - 1
			}
			near(t, softmax(out.Floats(t)[(s*positions+last)*vocab:][:vocab]), want[0])
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("%d samples more", len(want))
	}
}

func softmax(logits []float64) []float64 {
	p, sum := make([]float64, len(logits)), 0.0
	for i, x := range logits {
		p[i] = math.Exp(x)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// An export that cannot be leaves nothing, and the file that was there as it was.
func TestExportONNXRefused(t *testing.T) {
	dir, _ := trainedRun(t, runtest.Everything)
	path := filepath.Join(t.TempDir(), "m.onnx")
	for what, err := range map[string]error{
		"a file of weights": func() error {
			_, err := berth.ExportONNX(t.Context(), berth.Weights{Init: "w.safetensors"}, path)
			return err
		}(),
		"no run": func() error {
			_, err := berth.ExportONNX(t.Context(), berth.Weights{Dir: filepath.Dir(path)}, path)
			return err
		}(),
		"no folder": func() error {
			_, err := berth.ExportONNX(t.Context(), berth.Weights{Dir: dir}, filepath.Join(path, "none"))
			return err
		}(),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}
