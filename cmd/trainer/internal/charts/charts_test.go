package charts

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/internal/svg/svgtest"
)

// A curve keeps each value in the mean and the range of a bucket, however many
// values there are.
func TestCurve(t *testing.T) {
	for _, n := range []int{1, mostBuckets, mostBuckets + 1, 10 * mostBuckets, 12345} {
		var c curve
		sum, low, high := 0.0, math.Inf(1), math.Inf(-1)
		for i := range n {
			v := math.Sin(float64(i))
			c.add(i+1, v)
			sum, low, high = sum+v, min(low, v), max(high, v)
		}
		values, mean, least, most, before := 0, 0.0, math.Inf(1), math.Inf(-1), 0.0
		for _, b := range c.buckets {
			values += b.n
			mean += b.mean * float64(b.n)
			least, most = min(least, b.low), max(most, b.high)
			if b.step <= before {
				t.Errorf("of %d: step %g after %g", n, b.step, before)
			}
			before = b.step
		}
		if len(c.buckets) > mostBuckets || values != n || math.Abs(mean-sum) > 1e-9*float64(n) || least != low || most != high {
			t.Errorf("of %d: %d buckets with %d values, sum %g (want %g), from %g to %g", n, len(c.buckets), values, mean, sum, least, most)
		}
		c.add(1, 5) // a line twice, or out of order
		if c.buckets[0].high == 5 && n > 1 {
			t.Error("a value of an earlier step counts")
		}
	}
}

// runOf writes a run folder with these lines of metrics.
func runOf(t testing.TB, name, metrics string) string {
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(metrics), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// learning is a run of 3 epochs of 10 steps.
func learning() string {
	var b strings.Builder
	for step := 1; step <= 30; step++ {
		fmt.Fprintf(&b, `{"step":%d,"epoch":%d,"loss":%g,"learning_rate":0.1}`+"\n", step, (step-1)/10, 3/float64(step))
		if step%10 == 0 {
			fmt.Fprintf(&b, `{"epoch":%d,"step":%d,"train_loss":0.5,"val_loss":0.6,"val_accuracy":0.9,"learning_rate":0.1,"samples_per_s":100,"train_s":0.02,"device_peak_bytes":3000000,"val_confusion":[[5,1],[0,6]]}`+"\n", step/10-1, step)
		}
	}
	return b.String()
}

// drawn runs the command, and returns the picture.
func drawn(t testing.TB, out string, args ...string) ([]byte, error) {
	path := filepath.Join(t.TempDir(), out)
	c := Command()
	c.SetArgs(append(args, "-o", path))
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.ExecuteContext(t.Context()); err != nil {
		if _, made := os.Stat(path); made == nil {
			t.Errorf("%v, and there is a picture", err)
		}
		return nil, err
	}
	return os.ReadFile(path)
}

// texts are the texts of an SVG.
func texts(t *testing.T, svg []byte) string {
	t.Helper()
	var list []string
	for d, in := xml.NewDecoder(bytes.NewReader(svg)), false; ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return strings.Join(list, "|")
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := tok.(type) {
		case xml.StartElement:
			in = x.Name.Local == "text"
		case xml.EndElement:
			in = false
		case xml.CharData:
			if in {
				list = append(list, string(x))
			}
		}
	}
}

func TestPlot(t *testing.T) {
	a, b := runOf(t, "a", learning()), runOf(t, "b<&>\x1b", learning())
	answer := filepath.Join(t.TempDir(), "eval.json")
	if err := os.WriteFile(answer, []byte(`{"confusion":[[5,1],[0,6]],"classes":[{"label":"cat"},{"label":"a dog"}]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
		not  []string
	}{
		{[]string{a}, []string{"each step|training|validation", "loss", "accuracy", "learning rate", "confusion matrix", "predicted class", "step"}, []string{"samples/s", "epoch"}},
		{[]string{a, "--x", "epoch"}, []string{"epoch", "|3|"}, []string{"|30|"}},
		{[]string{a, b, "--log"}, []string{"2 runs", "/a|", "b<&> ", "loss"}, []string{"confusion", "\x1b"}},
		{[]string{a, "--metrics", "accuracy"}, []string{"|accuracy|", "|100%|", "|validation|"}, []string{"training"}},
		{[]string{a, "--metrics", "samples_per_s"}, []string{"|samples/s|", "|training|"}, []string{"loss", "accuracy", "validation"}},
		{[]string{a, "--metrics", "train_s,device_peak_bytes"}, []string{"|20 ms|", "|3 MiB|"}, nil},
		{[]string{a, "--confusion", "--title", "Mine"}, []string{"Mine", "true class", "|5|83%|1|17%|6|100%"}, []string{"loss"}},
		{[]string{answer}, []string{"cat", "a dog", "|5|83%|1|17%|6|100%"}, nil},
	} {
		svg, err := drawn(t, "x.svg", c.args...)
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		have := texts(t, svg)
		for _, want := range c.want {
			if !strings.Contains(have, want) {
				t.Errorf("%q: %q has no %q", c.args, have, want)
			}
		}
		for _, not := range c.not {
			if strings.Contains(have, not) {
				t.Errorf("%q: %q has %q", c.args, have, not)
			}
		}
	}
	picture, err := drawn(t, "x.PNG", a, "--metrics", "loss")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := png.DecodeConfig(bytes.NewReader(picture))
	if err != nil || cfg.Width < 1000 {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// Mistakes are named, and no picture is left.
func TestPlotRefuses(t *testing.T) {
	a, empty := runOf(t, "a", learning()), runOf(t, "empty", "")
	short := runOf(t, "short", `{"step":1,"epoch":0,"loss":1}`+"\n")
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"confusion":[[5,1],[0]]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		out  string
		args []string
		want string
	}{
		{"x.svg", []string{filepath.Join(a, "none")}, "has no metrics.jsonl"},
		{"x.svg", []string{empty}, "has no losses yet"},
		{"x.svg", []string{short, "--x", "epoch"}, "second epoch"},
		{"x.svg", []string{short, "--confusion"}, "has no confusion matrix"},
		{"x.svg", []string{a, "--metrics", "lss"}, `did you mean "loss"?`},
		{"x.svg", []string{a, "--metrics", "f1"}, "expected some of loss,accuracy,learning_rate,samples_per_s"},
		{"x.svg", []string{a, "--x", "hour"}, "expected step or epoch"},
		{"x.pdf", []string{a}, "ends in .svg or .png"},
		{"x.svg", []string{bad}, "row 1 of the confusion matrix has 1 numbers: expected 2"},
		{"x.svg", []string{filepath.Join(a, "metrics.jsonl")}, "neither a run folder nor"},
	} {
		_, err := drawn(t, c.out, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}

// odd are metrics that no run writes, or only a strange one.
var odd = []string{
	`{"step":1,"epoch":0,"loss":1}`,
	`{"step":1,"epoch":0,"loss":0}` + "\n" + `{"step":2,"epoch":0,"loss":0}`,
	`{"step":1,"epoch":0,"loss":-1}` + "\n" + `{"step":2,"epoch":0,"loss":1e99}`,
	`{"step":1,"epoch":0,"loss":1e300}` + "\n" + `{"step":9007199254740992,"epoch":0,"loss":1e-320}`,
	`{"step":5,"epoch":3,"loss":1}` + "\n" + `{"step":4,"epoch":9,"loss":2}` + "\n" + `{"step":6,"epoch":0,"loss":3}`,
	`{"step":0,"epoch":0,"val_loss":1,"val_confusion":[[0]]}`,
	`{"step":1,"epoch":0,"":1,"\u0000":2,"train_":3,"val_":4}`,
	`{"step":1e300,"epoch":0,"loss":1}`,
	`null` + "\n" + `[]` + "\n" + `{"step":"1"}`,
}

// Whatever the metrics are, there is a picture or an error.
func FuzzPlot(f *testing.F) {
	for _, text := range odd {
		f.Add(text, true, true)
		f.Add(text, false, false)
	}
	f.Fuzz(func(t *testing.T, text string, log, epochs bool) {
		h, err := readHistory(t.Context(), runOf(t, "a", text))
		if err != nil || len(h.steps)+len(h.boundaries) == 0 {
			return
		}
		subjects, err := chosen([]*history{h}, nil)
		if err != nil {
			t.Fatal(err)
		}
		v := view{log: log, epochs: epochs && h.perEpoch > 0}
		var b bytes.Buffer
		if err := figureOf("x", []*history{h}, subjects, v, h.confusion).write(&b, "svg"); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b.Bytes(), []byte("NaN")) || bytes.Contains(b.Bytes(), []byte("Inf")) {
			t.Errorf("a coordinate is no number: %s", b.Bytes())
		}
		svgtest.Check(t, b.String())
	})
}

// A file with very many fields is drawn within bounds.
func TestManyFields(t *testing.T) {
	fields := map[string]any{"step": 1, "epoch": 0}
	for i := range 1000 {
		fields[fmt.Sprintf("val_%d", i)] = 1
	}
	line, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	h, err := readHistory(t.Context(), runOf(t, "a", string(line)+"\n"))
	if err != nil || len(h.boundaries) != mostFields || len(h.notes()) != 1 {
		t.Errorf("%d fields, notes %q, %v", len(h.boundaries), h.notes(), err)
	}
}

// Whatever an answer of eval is, there is a picture or a mistake that is named.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`{"confusion":[[5,1],[0,6]],"classes":[{"label":"cat"},{"label":"\u0000"}]}`,
		`{"confusion":[[0]],"classes":[]}`, `{"confusion":[[1],[2]]}`, `{"confusion":[[-1]]}`, `{"confusion":[[1e300]]}`,
		`{"confusion":[]}`, `[]`, `{"confusion":[[1,`, "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "eval.json")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		m, err := readMatrix(t.Context(), path)
		if err != nil {
			if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), path) {
				t.Error(err)
			}
			return
		}
		var b bytes.Buffer
		if err := figureOf("x", nil, nil, view{}, m).write(&b, "svg"); err != nil || bytes.Contains(b.Bytes(), []byte("NaN")) {
			t.Errorf("%v: %s", err, b.Bytes())
		}
	})
}

// A value that is null leaves a gap in the line; a value between two gaps has a mark.
func TestGaps(t *testing.T) {
	var b strings.Builder
	for step := 1; step <= 60; step++ {
		value := fmt.Sprint(step)
		if slices.Contains([]int{20, 40, 42}, step) {
			value = "null"
		}
		fmt.Fprintf(&b, `{"step":%d,"epoch":0,"val_f1":%s}`+"\n", step, value)
	}
	picture, err := drawn(t, "x.svg", runOf(t, "a", b.String()), "--metrics", "f1")
	if err != nil {
		t.Fatal(err)
	}
	svgtest.Check(t, string(picture))
	// Three lines and the legend's, and the mark of step 41.
	lines, marks := bytes.Count(picture, []byte(`stroke="#d55e00"`)), bytes.Count(picture, []byte(`fill="#d55e00"`))
	if lines != 4 || marks != 1 {
		t.Errorf("%d lines and %d marks, want 4 and 1:\n%s", lines, marks, picture)
	}
}

// A confusion matrix is readable with any number of classes, alone and in a panel, whatever
// their names and counts are. Names that are cut are shown whole by the pointer.
func TestMatrices(t *testing.T) {
	long := "a class with a very long name that goes on and on, number "
	for _, n := range []int{1, 2, 3, 5, 10, 16, 20, 31, 50, 100} {
		for _, largest := range []float64{1, 300, 123456, 1e15} {
			counts, names := make([][]float64, n), make([]string, n)
			for i := range counts {
				counts[i], names[i] = make([]float64, n), long+fmt.Sprint(i)
				for j := range counts[i] {
					counts[i][j] = math.Floor(largest * float64((i*7+j*3)%11) / 10)
				}
			}
			m, err := newMatrix(counts, names)
			if err != nil {
				t.Fatal(err)
			}
			h, err := readHistory(t.Context(), runOf(t, "a", learning()))
			if err != nil {
				t.Fatal(err)
			}
			alone, panel := figureOf("x", nil, nil, view{}, m).picture().String(), figureOf("x", []*history{h}, []subject{{"loss"}}, view{}, m).picture().String()
			for _, text := range []string{alone, panel} {
				for _, fault := range svgtest.Faults(text) {
					t.Errorf("%d classes, counts up to %g: %s", n, largest, fault)
				}
				if whole := "<title>" + long + "0</title>"; !strings.Contains(text, whole) {
					t.Errorf("%d classes: no name is whole", n)
				}
			}
		}
	}
}

// Many runs with long names and extreme values are drawn within the picture.
func TestManyRuns(t *testing.T) {
	for _, n := range []int{1, 2, 8, mostRuns} {
		for _, scale := range []float64{1e-12, 1, 1e15} {
			var runs []*history
			for i := range n {
				text := ""
				for step := range 30 {
					text += fmt.Sprintf(`{"step":%d,"epoch":0,"loss":%g}`+"\n", 1000*step+1, scale*float64(i+1)/float64(step+1))
				}
				h, err := readHistory(t.Context(), runOf(t, "a", text))
				if err != nil {
					t.Fatal(err)
				}
				h.name = strings.Repeat("a long name of a run ", 1+i%9)
				runs = append(runs, h)
			}
			for _, v := range []view{{}, {log: true}} {
				for _, fault := range svgtest.Faults(figureOf(strings.Repeat("title ", 99), runs, []subject{{"loss"}}, v, nil).picture().String()) {
					t.Errorf("%d runs, losses about %g, %+v: %s", n, scale, v, fault)
				}
			}
		}
	}
}
