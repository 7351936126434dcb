package datasets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// parseCSV reads a text as a table of numbers, from a file of the name in in.path.
func parseCSV(t testing.TB, text string, in csvInput) (*csvData, error) {
	t.Helper()
	in.path = write(t, in.path, text)
	return readCSV(t.Context(), in)
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
		"infinite":       {"1,x\ninf,y\n", CSVOptions{}, ErrFormat, "x.csv:2:1: \"inf\" is not a number"},
		"overflow":       {"1,x\n1e39,y\n", CSVOptions{}, ErrFormat, `x.csv:2:1: "1e39" is beyond the range of float32, ±3.403e+38: scale the column`},
		"no labels":      {"a,k\n1,\n2,\n", CSVOptions{}, ErrTooFew, "x.csv: none of 2 rows has a label"},
		"ragged":         {"1,2,x\n3,4\n", CSVOptions{}, ErrFormat, "x.csv:2: 2 columns where the first row has 3"},
		"quote":          {"1,x\n2,\"y\n", CSVOptions{}, ErrFormat, "x.csv:2"},
		"quoted, other":  {"\"a\";\"k\"\n1;\"x\"\n", CSVOptions{}, ErrFormat, "x.csv:1:3: the quotes do not fit the columns; they look separated by \";\": set data.delimiter to that"},
		"quoted, later":  {"a;k\n1;\"x\"\n", CSVOptions{}, ErrFormat, "they look separated by \";\""},
		"no list":        {"a,k,l\n1,x,y\n", CSVOptions{Labels: []string{"k,l"}}, ErrSpec, "among a, k, l; several labels are a list: [k,l]"},
		"no label":       {"a,k\n1,x\n", CSVOptions{Labels: []string{"kind"}}, ErrSpec, `no label column "kind" among a, k`},
		"label number":   {"1,x\n2,y\n", CSVOptions{Labels: []string{"2"}}, ErrSpec, "2 columns"},
		"label twice":    {"1,2\n", CSVOptions{Task: TaskRegression, Labels: []string{"1", "-1"}}, ErrSpec, "named twice"},
		"only label":     {"x\ny\n", CSVOptions{}, ErrFormat, "x.csv: there is no column beside the label to predict it from: add one"},
		"all ignored":    {"a,k\n1,x\n2,y\n", CSVOptions{Ignore: []string{"a"}}, ErrFormat, "x.csv: every column beside the label is ignored, and none is left"},
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

// Targets outside 0 to 1 are refused for a loss that needs them there.
func TestUnitTargets(t *testing.T) {
	header := npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1)}\n", 0)
	dir := folder(t, map[string][]byte{"input.npy": append(header, 0, 0, 0, 0, 0, 0, 0, 0), "target.npy": append(header, shape.Bytes([]float32{1, -7})...)})
	for name, s := range map[string]Spec{
		`x.csv:3:3 (column "y"): the target is 2, but loss bce needs targets from 0 to 1`:           {Source: "csv", Path: write(t, "x.csv", "a,y\n1,0.5\n3,2\n"), CSV: CSVOptions{Task: TaskRegression}},
		`"target": element 0 of sample 1: the target is -7, but loss bce needs targets from 0 to 1`: {Source: "tensors", Path: dir},
	} {
		s.Split = 1
		open(t, s)
		s.UnitTarget = true
		if _, err := Open(t.Context(), s); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// A file with more classes than a model can tell apart is refused where they
// begin.
func TestManyClasses(t *testing.T) {
	if !testall.Wanted() {
		t.Skip("a million rows: TEST_ALL=1 runs it")
	}
	var text strings.Builder
	for i := range mostClasses + 1 {
		fmt.Fprintf(&text, "1,k%d\n", i)
	}
	_, err := parseCSV(t, text.String(), csvInput{path: "x.csv"})
	want := fmt.Sprintf("x.csv:%d:3: \"k%d\" is the class number %d, and the limit is %d", mostClasses+1, mostClasses, mostClasses+1, mostClasses)
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) || Blame(err) != "task" {
		t.Errorf("%v, want %q", err, want)
	}
}

func FuzzCSV(f *testing.F) {
	f.Add("len,width,kind\n1,2,rose\n3,4,iris\n", false)
	f.Add("1,2,3\n4,5,6\n", true)
	f.Add(strings.Repeat("8,", 63)+"16\n"+strings.Repeat("0,", 64)+"9", false)
	f.Add("\ufeff\"a\nb\",c\n1,2", true)
	f.Fuzz(func(t *testing.T, text string, regression bool) {
		if pixels, labels, err := parseDigits(files.NewLines(strings.NewReader(text), "fuzz.csv"), 0); err == nil && len(labels) != 0 && len(labels) != len(pixels)/digitPixels {
			t.Fatalf("%d labels for %d digits", len(labels), len(pixels)/digitPixels)
		}
		in := csvInput{path: "fuzz.csv"}
		if regression {
			in.opt.Task = TaskRegression
		}
		c, err := parseCSV(t, text, in)
		if err != nil {
			return
		}
		if len(c.values) != c.rows*len(c.features) || len(c.targets)+len(c.classes) != c.rows || c.rows > len(text) {
			t.Fatalf("%d rows, %d features, %d values, %d targets, %d classes", c.rows, len(c.features), len(c.values), len(c.targets), len(c.classes))
		}
	})
}

// An empty field of a file divided by tabs is said where it is.
func TestEmptyFieldBetweenTabs(t *testing.T) {
	_, err := parseCSV(t, "a\tb\tk\n1\t2\tx\n3\t\ty\n", csvInput{path: "x.csv", opt: CSVOptions{Comma: '\t'}})
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `x.csv:3:3 (column "b"): empty field`) {
		t.Error(err)
	}
}

// A number takes four bytes. A file that needs more memory than there is is
// refused, with both numbers.
func TestCSVMemory(t *testing.T) {
	row := strings.Repeat("1,", 9)
	s := Spec{Source: "csv", Path: write(t, "x.csv", strings.Repeat(row+"x\n"+row+"y\n", 100)), Memory: 1e9}
	ds := open(t, s)
	for i, want := range []int{200 * 9 * 4, 200 * 4} {
		if c := ds.Train.table.columns[i]; len(c.data) != want {
			t.Errorf("%s takes %d bytes, want %d", c.field.Name, len(c.data), want)
		}
	}
	s.Memory = 7000
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "take 7.8 KiB of memory, and 6.8 KiB is free: train on a part of the file, keep the samples in a file (--set data.memory=32MiB), or give the process more memory") {
		t.Error(err)
	}
	if _, err := OpenInputs(t.Context(), s, &ds.Info, s.Path); !errors.Is(err, ErrMemory) || strings.Contains(err.Error(), "data.memory") {
		t.Errorf("inputs: %v", err)
	}
}

// What other programs save is refused where it would be misread.
func TestForeignText(t *testing.T) {
	for text, says := range map[string]string{
		"a,b\n1,caf\xe9\n2,y\n": `x.csv:2:3 (column "b"): "caf\xe9" is not UTF-8: save the file as UTF-8`,
		"\xe4,b\n1,x\n2,y\n":    `x.csv: the name of column 0 in the header, "\xe4", is not UTF-8`,
	} {
		_, err := parseCSV(t, text, csvInput{path: "x.csv"})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
