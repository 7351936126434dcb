package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// inOrder opens a CSV text whole, in the order of its rows.
func inOrder(t testing.TB, content string, o CSVOptions) *Dataset {
	t.Helper()
	return open(t, Spec{Source: "csv", Path: write(t, "x.csv", content), Split: 1, KeepOrder: true, CSV: o})
}

func TestCSV(t *testing.T) {
	cases := map[string]struct {
		text     string
		opt      CSVOptions
		features string
		values   []float32
		classes  []string
		ids      []int32
	}{
		"string labels, header found": {"len,width,kind\n1,2,rose\n3,4,iris\n5,6,rose\n", CSVOptions{},
			"[len width]", []float32{1, 2, 3, 4, 5, 6}, []string{"iris", "rose"}, []int32{1, 0, 1}},
		"no header":     {"1,2,rose\n3,4,iris\n", CSVOptions{}, "[0 1]", []float32{1, 2, 3, 4}, []string{"iris", "rose"}, []int32{1, 0}},
		"label first":   {"kind,a\nx,1\ny,2\n", CSVOptions{Labels: []string{"0"}}, "[a]", []float32{1, 2}, []string{"x", "y"}, []int32{0, 1}},
		"label by name": {"a,kind,b\n1,x,2\n3,y,4\n", CSVOptions{Labels: []string{"kind"}}, "[a b]", []float32{1, 2, 3, 4}, []string{"x", "y"}, []int32{0, 1}},
		"label from the end, ignored": {"1,7,2,9\n3,8,4,10\n", CSVOptions{Labels: []string{"-3"}, Ignore: []string{"-1"}},
			"[0 2]", []float32{1, 2, 3, 4}, []string{"7", "8"}, []int32{0, 1}},
		"classes sort as numbers":     {"1,10\n2,9\n3,-1\n", CSVOptions{}, "[0]", []float32{1, 2, 3}, []string{"-1", "9", "10"}, []int32{2, 1, 0}},
		"header that looks like data": {"1,2\n3,4\n5,6\n", CSVOptions{Header: HeaderYes}, "[1]", []float32{3, 5}, []string{"4", "6"}, []int32{0, 1}},
		"mark, spaces, semicolons, quotes": {"\ufeffa; kind\r\n 1 ;\"x;y\"\r\n2;z\r\n", CSVOptions{Comma: ';'},
			"[a]", []float32{1, 2}, []string{"x;y", "z"}, []int32{0, 1}},
	}
	for name, c := range cases {
		ds := inOrder(t, c.text, c.opt)
		got := readAll(t, ds.Train, 0)
		if f := fmt.Sprint(ds.Info.Features); f != c.features {
			t.Errorf("%s: features %s, want %s", name, f, c.features)
		}
		if v := shape.View[float32](got[0]); !slices.Equal(v, c.values) {
			t.Errorf("%s: values %v, want %v", name, v, c.values)
		}
		if ids := shape.View[int32](got[1]); !slices.Equal(ids, c.ids) || !slices.Equal(ds.Info.ClassNames, c.classes) || ds.Info.Classes != len(c.classes) {
			t.Errorf("%s: classes %v of %v, want %v of %v", name, ids, ds.Info.ClassNames, c.ids, c.classes)
		}
	}
}

func TestCSVRegression(t *testing.T) {
	ds := inOrder(t, "y2,a,y1\n1,2,3\n4,5,6\n", CSVOptions{Task: TaskRegression, Labels: []string{"y1", "y2"}})
	got := readAll(t, ds.Train, 0)
	if !ds.Info.Target.Meta.Equal(shape.F32(2)) || !slices.Equal(shape.View[float32](got[1]), []float32{3, 1, 6, 4}) || ds.Info.Classes != 0 {
		t.Errorf("%v %v", ds.Info.Target, shape.View[float32](got[1]))
	}
}

func TestCSVErrors(t *testing.T) {
	cases := map[string]struct {
		text string
		opt  CSVOptions
		want error
		says string
	}{
		"not a number":   {"a,k\n1,x\nfoo,y\n", CSVOptions{}, ErrFormat, `x.csv:3:1 (column "a"): "foo" is not a number`},
		"empty field":    {"1,2,x\n3,,y\n", CSVOptions{}, ErrFormat, "x.csv:2:3: empty field"},
		"nan":            {"1,x\nnan,y\n", CSVOptions{}, ErrFormat, "x.csv:2:1: \"nan\" is not finite"},
		"overflow":       {"1,x\n1e99,y\n", CSVOptions{}, ErrFormat, "x.csv:2:1"},
		"empty label":    {"1,x\n2,\n", CSVOptions{}, ErrFormat, "x.csv:2:3: empty label"},
		"ragged":         {"1,2,x\n3,4\n", CSVOptions{}, ErrFormat, "x.csv:2: 2 columns where the first row has 3"},
		"quote":          {"1,x\n2,\"y\n", CSVOptions{}, ErrFormat, "x.csv:2"},
		"quoted, other":  {"\"a\";\"k\"\n1;\"x\"\n", CSVOptions{}, ErrFormat, "x.csv:1:3: the quotes do not fit the columns; they look separated by \";\": set data.delimiter to that"},
		"quoted, later":  {"a;k\n1;\"x\"\n", CSVOptions{}, ErrFormat, "they look separated by \";\""},
		"no label":       {"a,k\n1,x\n", CSVOptions{Labels: []string{"kind"}}, ErrSpec, `no label column "kind" among a, k`},
		"label number":   {"1,x\n2,y\n", CSVOptions{Labels: []string{"2"}}, ErrSpec, "2 columns"},
		"label twice":    {"1,2\n", CSVOptions{Task: TaskRegression, Labels: []string{"1", "-1"}}, ErrSpec, "named twice"},
		"only label":     {"x\ny\n", CSVOptions{}, ErrFormat, "no feature column"},
		"header only":    {"a,k\n", CSVOptions{Header: HeaderYes}, ErrTooFew, "no rows"},
		"words only":     {"a,b,k\n", CSVOptions{}, ErrTooFew, "has a header but no rows"},
		"ragged, late":   {"a,k\n1,x\n\n2,y\n3,4,z\n", CSVOptions{}, ErrFormat, "x.csv:5: 3 columns where the first row has 2"},
		"one class":      {"1,x\n2,x\n", CSVOptions{}, ErrTooFew, `every row is of class "x"`},
		"label ignored":  {"a,k\n1,x\n2,y\n", CSVOptions{Ignore: []string{"k"}}, ErrSpec, `column "k" is ignored and is the label`},
		"empty":          {"", CSVOptions{}, ErrTooFew, "empty"},
		"repeated names": {"a,a,k\n1,2,x\n", CSVOptions{}, ErrFormat, `"a" appears twice`},
		"delimiter":      {"1,x\n", CSVOptions{Comma: '"'}, nil, "delimiter"},
	}
	for name, c := range cases {
		_, err := Open(context.Background(), Spec{Source: "csv", Path: write(t, "x.csv", c.text), Split: 1, CSV: c.opt})
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// Scaling is fitted on the training part alone, and prediction reuses it.
// A loss of 0 and 1 has no use for other targets.
func TestUnitTargets(t *testing.T) {
	header := npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1)}\n", 0)
	dir := folder(t, map[string][]byte{"input.npy": append(header, 0, 0, 0, 0, 0, 0, 0, 0), "target.npy": append(header, shape.Bytes([]float32{1, -7})...)})
	for name, s := range map[string]Spec{
		`x.csv:3:3 (column "y"): the target is 2, and the loss is bce`:           {Source: "csv", Path: write(t, "x.csv", "a,y\n1,0.5\n3,2\n"), CSV: CSVOptions{Task: TaskRegression}},
		`"target": element 0 of sample 1: the target is -7, and the loss is bce`: {Source: "tensors", Path: dir},
	} {
		s.Split = 1
		open(t, s)
		s.UnitTarget = true
		if _, err := Open(t.Context(), s); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

func TestCSVStandardize(t *testing.T) {
	var text strings.Builder
	text.WriteString("a,const,b,k\n")
	for i := range 40 {
		fmt.Fprintf(&text, "%d,7.1,%d,%c\n", i, 1000+i*i, 'x'+rune(i%2))
	}
	s := Spec{Source: "csv", Path: write(t, "x.csv", text.String()), Seed: 5, Split: 0.75, CSV: CSVOptions{Standardize: true}}
	ds := open(t, s)
	train, val := shape.View[float32](readAll(t, ds.Train, 0)[0]), shape.View[float32](readAll(t, ds.Val, 0)[0])
	for j, wantStd := range []float64{1, 0, 1} {
		mean, std := moments(train, j, 3)
		if math.Abs(mean) > 1e-5 || math.Abs(std-wantStd) > 1e-5 {
			t.Errorf("training feature %d has mean %v and deviation %v", j, mean, std)
		}
	}
	if mean, _ := moments(val, 0, 3); math.Abs(mean) < 1e-4 {
		t.Error("the validation part took part in the fit")
	}

	var info Info // as it would come back from a checkpoint
	b, err := json.Marshal(ds.Info)
	if err == nil {
		err = json.Unmarshal(b, &info)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []float32{float32((3 - info.Scaling.Mean[0]) / info.Scaling.Std[0]), 0, float32((1009 - info.Scaling.Mean[2]) / info.Scaling.Std[2])}
	for name, text := range map[string]string{
		"as trained":   "a,const,b,k\n3,7.1,1009,x\n",
		"by name":      "b,extra,a,const\n1009,0,3,7.1\n",
		"no header":    "3,7.1,1009\n",
		"one too many": "3,7.1,1009,x\n",
	} {
		p, err := openOne(context.Background(), s, &info, write(t, "in.csv", text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := shape.View[float32](readAll(t, p, 0)[0]); !near(got, want) || len(p.Fields()) != 1 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	_, err = OpenInputs(context.Background(), s, &info, write(t, "in.csv", "a,c,b\n1,2,3\n"))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `lacks the column "const"`) {
		t.Error(err)
	}
}

func near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-5 })
}

func moments(x []float32, j, width int) (mean, std float64) {
	n := float64(len(x) / width)
	for i := j; i < len(x); i += width {
		mean += float64(x[i]) / n
	}
	for i := j; i < len(x); i += width {
		std += (float64(x[i]) - mean) * (float64(x[i]) - mean) / n
	}
	return mean, math.Sqrt(std)
}

func FuzzCSV(f *testing.F) {
	f.Add("len,width,kind\n1,2,rose\n3,4,iris\n", false)
	f.Add("1,2,3\n4,5,6\n", true)
	f.Add(strings.Repeat("8,", 63)+"16\n"+strings.Repeat("0,", 64)+"9", false)
	f.Add("\ufeff\"a\nb\",c\n1,2", true)
	f.Fuzz(func(t *testing.T, text string, regression bool) {
		if pixels, labels, err := parseDigits("fuzz.csv", []byte(text)); err == nil && len(labels) != 0 && len(labels) != len(pixels)/digitPixels {
			t.Fatalf("%d labels for %d digits", len(labels), len(pixels)/digitPixels)
		}
		c := &csvFile{path: "fuzz.csv"}
		if regression {
			c.opt.Task = TaskRegression
		}
		if err := c.parse(strings.NewReader(text), nil); err != nil {
			return
		}
		if len(c.values) != c.rows*len(c.features) || len(c.targets)+len(c.classes) != c.rows || c.rows > len(text) {
			t.Fatalf("%d rows, %d features, %d values, %d targets, %d classes", c.rows, len(c.features), len(c.values), len(c.targets), len(c.classes))
		}
	})
}

// openOne is OpenInputs where all samples are of one shape.
func openOne(ctx context.Context, s Spec, info *Info, path string) (*Part, error) {
	parts, err := OpenInputs(ctx, s, info, path)
	if err != nil {
		return nil, err
	}
	if len(parts) != 1 {
		return nil, fmt.Errorf("%d parts", len(parts))
	}
	return parts[0], nil
}
