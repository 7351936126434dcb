package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/shape"
)

// people is a table with words, dates and missing values.
func people(rows int) string {
	var b strings.Builder
	b.WriteString("id,name,age,plan,since,active,churn\n")
	plans := []string{"gold", "silver", "free"}
	for i := range rows {
		age := fmt.Sprint(20 + i*7%50)
		if i%11 == 3 {
			age = []string{"", "NA", "?"}[i%3]
		}
		fmt.Fprintf(&b, "C%05d,\"Ms. Ann %d Example\",%s,%s,2024-%02d-%02d 1%d:30,%s,%s\n",
			i, i, age, plans[i*i%7%3], i%12+1, i%28+1, i%10, []string{"yes", "no"}[i%2], []string{"stays", "leaves"}[i*5%7%2])
	}
	return b.String()
}

// rowsOfPart reads a part's samples and targets, a line each.
func rowsOfPart(t *testing.T, p *Part) (out []string) {
	t.Helper()
	got := readAll(t, p.InOrder(), 0)
	x, y := shape.View[float32](got[0]), shape.View[int32](got[1])
	w := p.Fields()[0].Meta.Elems()
	for i, class := range y {
		out = append(out, fmt.Sprint(x[i*w:(i+1)*w], class))
	}
	return out
}

// A table with words becomes the features that its kinds say.
func TestKinds(t *testing.T) {
	ds := open(t, Spec{Source: "csv", Path: write(t, "x.csv", people(200)), Seed: 3, CSV: CSVOptions{Standardize: true}})
	want := []string{"age", "age missing", "plan=free", "plan=gold", "plan=silver",
		"since year", "since month", "since weekday", "since hour", "since days before", "active"}
	got := slices.Clone(ds.Info.Features)
	slices.Sort(got[2:5]) // by frequency
	if !slices.Equal(got, want) {
		t.Errorf("features %q", got)
	}
	var kinds []string
	for _, d := range ds.Columns {
		kinds = append(kinds, d.Name+" "+string(d.Kind))
	}
	if want := "[id identifier name text age number plan category since date active boolean churn category]"; fmt.Sprint(kinds) != want {
		t.Errorf("kinds %v, want %s", kinds, want)
	}
	if ds.Train.Len() != 160 || ds.Val.Len() != 40 {
		t.Errorf("%d and %d samples", ds.Train.Len(), ds.Val.Len())
	}
	x, w := shape.View[float32](readAll(t, ds.Train, 0)[0]), len(want)
	sum := make([]float64, w)
	for i, v := range x {
		if j := i % w; j >= 1 && j <= 4 || j == 10 { // no quantities
			if v != 0 && v != 1 {
				t.Fatalf("%s is %v", want[j], v)
			}
		} else {
			sum[j] += float64(v)
		}
	}
	for j, s := range sum {
		if s/160 > 1e-5 || s/160 < -1e-5 {
			t.Errorf("the mean of %s is %v", want[j], s/160)
		}
	}
}

// The kinds that a config keeps find the same again, whatever was found; so does a model's
// own description, by which the same file is the same data.
func TestKindsAgain(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "x.csv", people(200)), Seed: 3, CSV: CSVOptions{Standardize: true}}
	ds := open(t, s)
	again := s
	again.Columns.Columns = ds.Options
	second := open(t, again)
	if second.Info.Fingerprint != ds.Info.Fingerprint || !slices.Equal(second.Options, ds.Options) {
		t.Errorf("fingerprint %s, want %s\n%v\n%v", second.Info.Fingerprint, ds.Info.Fingerprint, second.Options, ds.Options)
	}
	text, err := json.Marshal(ds.Info)
	if err != nil {
		t.Fatal(err)
	}
	var info Info
	if err := json.Unmarshal(text, &info); err != nil {
		t.Fatal(err)
	}
	like := s
	like.Like = &info
	third := open(t, like)
	if third.Info.Fingerprint != ds.Info.Fingerprint || third.Val == nil {
		t.Fatalf("fingerprint %s, want %s", third.Info.Fingerprint, ds.Info.Fingerprint)
	}
	if !slices.Equal(rowsOfPart(t, third.Val), rowsOfPart(t, ds.Val)) || !slices.Equal(rowsOfPart(t, third.Train), rowsOfPart(t, ds.Train)) {
		t.Error("the samples differ")
	}
}

// A file to predict from may have its columns in any order, others beside them, and no label
// and no optional column. Rows by name become the same features.
func TestKindInputs(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "x.csv", people(200)), Seed: 3, CSV: CSVOptions{Standardize: true}}
	ds := open(t, s)
	text := "extra,active,since,plan,age\n9,yes,2024-05-06,gold,41\n8,no,2020-01-02 23:00,unheard,\n"
	parts, err := OpenInputs(t.Context(), s, &ds.Info, write(t, "new.csv", text))
	if err != nil {
		t.Fatal(err)
	}
	got := shape.View[float32](readAll(t, parts[0], 0)[0])
	part, err := RowInputs(&ds.Info, []map[string]any{
		{"active": true, "since": "2024-05-06", "plan": "gold", "age": 41, "else": 1},
		{"active": "no", "since": "2020-01-02T23:00:00Z", "plan": "unheard", "age": nil}})
	if err != nil {
		t.Fatal(err)
	}
	if byName := shape.View[float32](readAll(t, part, 0)[0]); !slices.Equal(got, byName) {
		t.Errorf("%v\n%v by name", got, byName)
	}
	w := len(ds.Info.Features)
	if got[1] != 0 || got[w+1] != 1 || slices.Contains(got[w+2:w+5], 1) {
		t.Errorf("%v", got)
	}
	for text, says := range map[string]string{
		"active,since,age\nyes,2024-05-06,41\n":               `lacks the column "plan" that the model was trained on; it has active, since, age; give the column, or train anew with data.columns: {plan: {missing: frequent}}, and the file may lack it`,
		"active,since,plan,age\nyes,,gold,41\n":               "new.csv:2:5 (column \"since\"): the value is missing",
		"active,since,plan,age\nyes,,gold,forty\n":            `"forty" is not a number: write a finite number, or nothing if it is missing; column "since": the value is missing, and no row that the model was trained on lacks it: write one`,
		"active,since,plan,age\nyes,2024-13-06,gold,41\n":     "new.csv:2:5 (column \"since\"): \"2024-13-06\" is not a date",
		"active,since,plan,age\nperhaps,2024-12-06,gold,41\n": "new.csv:2:1 (column \"active\"): \"perhaps\" is neither yes nor no",
		"active,since,plan,age\nyes,2024-12-06,gold,forty\n":  "new.csv:2:21 (column \"age\"): \"forty\" is not a number",
		"active,since,plan,age\nyes,2024-12-06,gold,1e60\n":   "is beyond the range of float32",
		"active,since,plan,age\nyes,2024-12-06,g\xffld,60\n":  "is not UTF-8",
	} {
		_, err := OpenInputs(t.Context(), s, &ds.Info, write(t, "new.csv", text))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if _, err := RowInputs(&ds.Info, []map[string]any{{"age": struct{}{}}}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `row 0: column "age": struct {} is no value`) {
		t.Error(err)
	}
}

// A table of numbers with nothing missing has the same samples, whichever way it is read.
func TestKindsOfNumbers(t *testing.T) {
	var b strings.Builder
	b.WriteString("a,b,k\n")
	for i := range 60 {
		fmt.Fprintf(&b, "%d,%g,%s\n", i*i, float64(i)/7, []string{"x", "y", "z"}[i*2%3])
	}
	s := Spec{Source: "csv", Path: write(t, "x.csv", b.String()), Seed: 5, CSV: CSVOptions{Standardize: true}}
	plain := open(t, s)
	s.Describe = true
	kinds := open(t, s)
	if kinds.Info.Columns == nil || plain.Info.Columns != nil {
		t.Fatal("not read in both ways")
	}
	if !slices.Equal(rowsOfPart(t, plain.Train), rowsOfPart(t, kinds.Train)) || !slices.Equal(rowsOfPart(t, plain.Val), rowsOfPart(t, kinds.Val)) {
		t.Error("the samples differ")
	}
}

// What cannot be read as a table with kinds is refused where it is, with advice.
func TestKindErrors(t *testing.T) {
	long := func(odd string, rows int) string {
		var b strings.Builder
		b.WriteString("x,d,k\n")
		for i := range rows {
			fmt.Fprintf(&b, "%d,2024-01-%02d,%s\n", i, i%28+1, []string{"a", "b"}[i%2])
		}
		return b.String() + odd
	}
	ask := func(o columns.Option) columns.Options { return columns.Options{Columns: []columns.Option{o}} }
	cases := map[string]struct {
		text  string
		o     columns.Options
		want  error
		says  string
		blame string

		ignore []string
	}{
		"a word among numbers": {long("12a,2024-01-01,a\n", 5000), columns.Options{}, ErrFormat, `x.csv:5002:1 (column "x"): "12a" is not a number, and 5,000 of the column's 5,001 values are: if it stands for a missing value, write data.missing: ["NA", "na", "Na", "N/A", "n/a", "null", "NULL", "Null", "?", "nan", "NaN", "NAN", "12a"]; if`, "path", nil},
		"a word among dates":   {long("7,soon,a\n", 100), columns.Options{}, ErrFormat, `x.csv:102:3 (column "d"): "soon" is not a date such as 2024-02-29`, "path", nil},
		"days or months":       {"x,d,k\n1,01/02/2024,a\n2,03/04/2024,b\n", columns.Options{}, ErrSpec, "of which none tells whether the day or the month is first", "columns.d", nil},
		"no such column":       {people(50), ask(columns.Option{Name: "plam", Kind: columns.Category}), ErrSpec, `there is no column "plam" among the features`, "columns.plam", nil},
		"the label":            {people(50), ask(columns.Option{Name: "churn", Kind: columns.Category}), ErrSpec, `the column "churn" is the label, which data.columns does not describe: take it out of data.columns, or name another label with data.label`, "columns.churn", nil},
		"left out":             {people(50), ask(columns.Option{Name: "id", Kind: columns.Category}), ErrSpec, `the column "id" is left out by data.ignore: take it out of data.ignore to use it, or out of data.columns`, "columns.id", []string{"id"}},
		"not a number":         {people(50), ask(columns.Option{Name: "plan", Kind: columns.Number}), ErrFormat, `x.csv:2:31 (column "plan"): "gold" is not a number`, "path", nil},
		"refused":              {people(50), ask(columns.Option{Name: "age", Missing: columns.FillRefuse}), ErrFormat, `(column "age"): the value is missing, and data.columns says missing: refuse: fill it in`, "path", nil},
		"median of words":      {people(50), ask(columns.Option{Name: "plan", Kind: columns.Category, Missing: columns.FillMedian}), ErrSpec, "a category has no median", "columns.plan", nil},
		"a star":               {"*,k\nred,x\nblue,y\n", columns.Options{}, ErrSpec, `a column is called "*"`, "columns.*", nil},
		"long names":           {strings.Repeat("n", 300<<10) + ",k\nred,x\nblue,y\n", columns.Options{}, ErrMemory, "are too many for the run's config", "path", nil},
		"nothing left":         {"a,k\n,x\n?,y\n", columns.Options{}, ErrFormat, "no column can be a feature", "path", nil},
	}
	for name, c := range cases {
		_, err := Open(context.Background(), Spec{Source: "csv", Path: write(t, "x.csv", c.text), Split: 1, Columns: c.o, CSV: CSVOptions{Ignore: c.ignore}})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || Blame(err) != c.blame {
			t.Errorf("%s: %v (of %s), want %q", name, err, Blame(err), c.says)
		}
	}
}

// A description refuses a missing value for the same reason as training does.
func TestDescribeRefusedMissing(t *testing.T) {
	o := columns.Options{Columns: []columns.Option{{Name: "age", Missing: columns.FillRefuse}}}
	_, _, err := DescribeTable(t.Context(), Spec{Source: "csv", Path: write(t, "x.csv", people(50)), Columns: o, Describe: true})
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `(column "age"): the value is missing, and data.columns says missing: refuse: fill it in`) {
		t.Error(err)
	}
}

// Rows that training never saw become the same features, to the bit, in the validation part,
// from a file whose columns stand in another order without the label, and by name.
func TestHeldOutRows(t *testing.T) {
	dir, drawn, good := t.TempDir(), 0, 0
	defer func() {
		if drawn >= 100 && good < 10 {
			t.Errorf("only %d of %d tables were read", good, drawn)
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		drawn++
		words := []string{"", "1", "-2.5", "7e3", "yes", "no", "red", "blue", "green", "2024-01-01", "2023-05-06 07:00", "NA", "one two three"}
		names := []string{"a", "b", "c", "d"}
		some := map[string][]string{}
		for _, name := range names {
			some[name] = rapid.SliceOfN(rapid.SampledFrom(words), 1, 5).Draw(t, name)
		}
		n := rapid.IntRange(5, 60).Draw(t, "rows")
		all, turned, rows := "a,b,c,d,k\n", "extra,d,c,b,a\n", []map[string]any{}
		for i := range n {
			row := map[string]any{}
			var fields []string
			for _, name := range names {
				word := rapid.SampledFrom(some[name]).Draw(t, "field")
				row[name] = word
				fields = append(fields, word)
			}
			all += strings.Join(fields, ",") + "," + []string{"x", "y"}[i%2] + "\n"
			slices.Reverse(fields)
			turned += "?," + strings.Join(fields, ",") + "\n"
			rows = append(rows, row)
		}
		s := Spec{Source: "csv", Path: filepath.Join(dir, "x.csv"), Seed: rapid.Uint64().Draw(t, "seed"), Split: 0.7, CSV: CSVOptions{Header: HeaderYes, Standardize: true}}
		for path, text := range map[string]string{s.Path: all, filepath.Join(dir, "new.csv"): turned} {
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		ds, err := Open(context.Background(), s)
		if err != nil || ds.Info.Columns == nil {
			return // such as a word among numbers
		}
		good++
		parts, err := OpenInputs(context.Background(), s, &ds.Info, filepath.Join(dir, "new.csv"))
		if err != nil {
			t.Fatal(err)
		}
		byName, err := RowInputs(&ds.Info, rows)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ds.Val.Len() {
			row := ds.Val.splitRow(i)
			want := sampleOf(t, ds.Val, i)
			if got := sampleOf(t, parts[0], row); got != want {
				t.Fatalf("row %d: %s, want %s", row, got, want)
			}
			if got := sampleOf(t, byName, row); got != want {
				t.Fatalf("row %d by name: %s, want %s", row, got, want)
			}
		}
	})
}

// sampleOf is the features of a sample, bit by bit.
func sampleOf(t *rapid.T, p *Part, i int) string {
	dst := p.Alloc(1)
	if _, err := p.Read(Cursor{Index: i}, 1, dst); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", dst[0])
}

// Columns go in wherever the label stands, and however many are ignored.
func TestKindPlaces(t *testing.T) {
	text := "skip,k,a,w\n9,x,1,red\n9,y,2,blue\n9,x,3,red\n"
	ds := open(t, Spec{Source: "csv", Path: write(t, "x.csv", text), Split: 1, KeepOrder: true, CSV: CSVOptions{Labels: []string{"k"}, Ignore: []string{"skip"}}})
	if got := rowsOfPart(t, ds.Train); fmt.Sprint(ds.Info.Features, got) != "[a w=red w=blue] [[1 1 0] 0 [2 0 1] 1 [3 1 0] 0]" {
		t.Error(ds.Info.Features, got)
	}
	_, list, err := DescribeTable(t.Context(), Spec{Source: "csv", Path: write(t, "x.csv", text), CSV: CSVOptions{Ignore: []string{"skip"}}})
	if err != nil || len(list) != 3 || list[1].Range != "1 to 3" {
		t.Errorf("%+v %v", list, err)
	}
}

// Rows without a label are left out, with a note. A class may be called NA.
func TestWithoutLabel(t *testing.T) {
	ds := open(t, Spec{Source: "csv", Path: write(t, "x.csv", "a,k\n1,x\n2,\n3,NA\n4,\n"), Split: 1, KeepOrder: true})
	if got := rowsOfPart(t, ds.Train); fmt.Sprint(got) != "[[1] 1 [3] 0]" || !slices.Contains(ds.Notes, "2 of 4 rows have no label and are left out") {
		t.Errorf("%v %q", got, ds.Notes)
	}
	ds = open(t, Spec{Source: "csv", Path: write(t, "x.csv", "a,y\n1,5\n2,NA\n3,7\n"), Split: 1, KeepOrder: true, CSV: CSVOptions{Task: TaskRegression}})
	if got := shape.View[float32](readAll(t, ds.Train, 0)[1]); !slices.Equal(got, []float32{5, 7}) {
		t.Error(got)
	}
}

// A header of words above words is found, unless its words come again.
func TestHeaderOfWords(t *testing.T) {
	rows := strings.Repeat("red,x\nblue,y\n", 20)
	for text, want := range map[string]string{"color,kind\n" + rows: "[color=blue color=red]", rows: "[0=blue 0=red]"} {
		ds := open(t, Spec{Source: "csv", Path: write(t, "x.csv", text), Split: 1})
		if fmt.Sprint(ds.Info.Features) != want || len(ds.Info.ClassNames) != 2 {
			t.Errorf("%v, want %s", ds.Info.Features, want)
		}
	}
}

// A feature that equals the label is named, in a table of numbers, too.
func TestLeak(t *testing.T) {
	for _, word := range []string{"", "w"} {
		var b strings.Builder
		b.WriteString("good,copy,k\n")
		for i := range 40 {
			fmt.Fprintf(&b, "%d,%s%d,%d\n", i%7, word, i%3, i%3)
		}
		ds := open(t, Spec{Source: "csv", Path: write(t, "x.csv", b.String()), Split: 1})
		if len(ds.Notes) != 1 || !strings.Contains(ds.Notes[0], `column "copy" equals the label k row for row`) {
			t.Errorf("%q", ds.Notes)
		}
	}
}

// Of several labels, those that a feature equals are named, whatever its words. One that never
// changes is none of them.
func TestLeakOfOneLabel(t *testing.T) {
	for task, words := range map[string][]string{TaskMultilabel: {"0", "1"}, TaskRegression: {"0", "1"}, "words": {"no", "yes"}} {
		var b strings.Builder
		b.WriteString("good,copy,zero,hot,wet,none\n")
		for i := range 80 {
			fmt.Fprintf(&b, "%d,%s,0,%d,%d,0\n", i%7, words[i/2%2], i%2, i/2%2)
		}
		kind := task
		if task == "words" {
			kind = TaskMultilabel
		}
		ds := open(t, Spec{Source: "csv", Path: write(t, "x.csv", b.String()), Split: 1, CSV: CSVOptions{Labels: []string{"hot", "wet", "none"}, Task: kind}})
		told := slices.DeleteFunc(ds.Notes, func(note string) bool { return !strings.Contains(note, "row for row") })
		if len(told) != 1 || !strings.HasPrefix(told[0], `column "copy" equals the label wet row for row`) {
			t.Errorf("%s: %q", task, told)
		}
	}
}

// A table with words takes four bytes a field, and is refused where they do not fit.
func TestKindMemory(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "x.csv", people(500)), Memory: 1 << 20}
	ds := open(t, s)
	if got, want := len(ds.Train.table.columns[0].data), 500*4*4; got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	s.Columns.Columns = []columns.Option{{Name: "id", Kind: columns.Ignore}, {Name: "name", Kind: columns.Ignore}, {Name: "since", Kind: columns.Date}}
	s.Memory = 7900
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "take 7.8 KiB of memory, and 7.7 KiB is free: train on a part of the file, keep the samples in a file (--set data.memory=32MiB), or give the process more memory") {
		t.Error(err)
	}
	s.Columns.Columns = nil
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "the different words of all columns up to") {
		t.Error(err)
	}
}

// FuzzKinds: no table with columns of any kind makes reading panic, and what is read is finite.
func FuzzKinds(f *testing.F) {
	f.Add(people(6), "", false)
	f.Add("x,y\nred,1\n,2\nblue,\n?,4\n", "red", true)
	f.Add("a,b,k\n2024-01-01,\"x\n\",1\n01.02.2024,,2\n", "", false)
	f.Fuzz(func(t *testing.T, text, missing string, regression bool) {
		s := Spec{Source: "csv", Path: write(t, "fuzz.csv", text), Split: 0.6, Describe: true, Memory: 1 << 24, CSV: CSVOptions{Standardize: true}}
		if regression {
			s.CSV.Task = TaskRegression
		}
		if missing != "" {
			s.Columns.Missing = []string{missing}
		}
		ds, err := Open(t.Context(), s)
		if err != nil {
			return
		}
		for _, p := range []*Part{ds.Train, ds.Val} {
			dst := p.Alloc(1)
			if _, err := p.Read(Cursor{}, 1, dst); err != nil {
				t.Fatal(err)
			}
			for i, v := range shape.View[float32](dst[0]) {
				if v-v != 0 && ds.Info.Scaling.Std[i] > 1e-30 {
					t.Fatalf("%s is %v", ds.Info.Features[i], v)
				}
			}
		}
	})
}

// data.columns names a column by its name or its number in the file, which also counts from
// the end.
func TestColumnsByNumber(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "x.csv", people(200)), Seed: 3}
	kinds := func(o ...columns.Option) (string, error) {
		s.Columns.Columns = o
		ds, err := Open(t.Context(), s)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(ds.Options), nil
	}
	want, err := kinds(columns.Option{Name: "name", Kind: columns.Category, Top: 3}, columns.Option{Name: "active", Kind: columns.Ignore})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := kinds(columns.Option{Name: "1", Kind: columns.Category, Top: 3}, columns.Option{Name: "-2", Kind: columns.Ignore}); err != nil || got != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
	for says, o := range map[string][]columns.Option{
		"\"age\" and \"2\" are the same column":    {{Name: "age", Kind: columns.Number}, {Name: "2", Kind: columns.Category}},
		"a category has no median":                 {{Name: "2", Kind: columns.Category, Missing: columns.FillMedian}},
		"the column \"churn\" is the label, which": {{Name: "2", Kind: columns.Category}, {Name: "-1", Kind: columns.Category}},
	} {
		if _, err := kinds(o...); err == nil || !strings.Contains(err.Error(), says) || Blame(err) != "columns."+o[len(o)-1].Name {
			t.Errorf("%v (of %s), want %q", err, Blame(err), says)
		}
	}
}

// The median that "*" asks for is the most frequent value of a column of words, also in the
// options that a config keeps, which are taken again. Columns that are left out have none.
func TestMedianOfAll(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "x.csv", people(200)), Seed: 3, Columns: columns.Options{Columns: []columns.Option{{Name: columns.All, Missing: columns.FillMedian}}}}
	ds := open(t, s)
	s.Columns.Columns = ds.Options
	again := open(t, s)
	if again.Info.Fingerprint != ds.Info.Fingerprint || !slices.Equal(again.Options, ds.Options) {
		t.Errorf("%v, want %v", again.Options, ds.Options)
	}
	for _, x := range ds.Options {
		want := map[string]string{"id": "", "name": "", "plan": columns.FillFrequent, "active": columns.FillFrequent, "age": columns.FillMedian, "since": columns.FillMedian}[x.Name]
		if x.Missing != want {
			t.Errorf("%v", x)
		}
	}
}
