package datasets

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/shape"
)

// rowsIn are the rows of a part; nil for no part.
func rowsIn(p *Part) (rows []int) {
	if p == nil {
		return nil
	}
	for i := range p.count {
		rows = append(rows, p.splitRow(i))
	}
	return rows
}

// everyRowOnce fails unless the parts have every row once.
func everyRowOnce(t interface{ Fatalf(string, ...any) }, rows int, parts ...*Part) {
	var all []int
	for _, p := range parts {
		all = append(all, rowsIn(p)...)
	}
	slices.Sort(all)
	for i, row := range all {
		if row != i || len(all) != rows {
			t.Fatalf("%d rows of %d, row %d at %d", len(all), rows, row, i)
		}
	}
}

// Every row is in one part, each class has its share to a row, a class trains wherever it has a row,
// and the same seed gives the same parts whatever number the file gives to a class.
func TestDivisionByShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(30, 400).Draw(t, "rows")
		d := &Division{
			Val: rapid.Float64Range(0.05, 0.4).Draw(t, "val"), Test: rapid.Float64Range(0.05, 0.4).Draw(t, "test"), Stratify: true,
		}
		s := Spec{Seed: rapid.Uint64().Draw(t, "seed"), Division: d}
		classes, renamed := make([]int32, n), make([]int32, n)
		count := rapid.IntRange(2, 6).Draw(t, "classes")
		size := make([]int, count)
		for i := range classes {
			c := min(rapid.IntRange(0, count-1).Draw(t, "class"), rapid.IntRange(0, count-1).Draw(t, "class")) // some are rare
			classes[i], renamed[i] = int32(c), int32(100-c)
			size[c]++
		}
		divide := func(classes []int32) *Dataset {
			ds := &Dataset{}
			err := ds.split(&table{rows: n}, s, 0, &rowKeys{classes: classes, class: func(c int32) string { return fmt.Sprint(c) }})
			if err != nil {
				t.Fatal(err)
			}
			return ds
		}
		ds, again := divide(classes), divide(renamed)
		everyRowOnce(t, n, ds.Train, ds.Val, ds.Test)
		for i, p := range []*Part{ds.Train, ds.Val, ds.Test} {
			other := []*Part{again.Train, again.Val, again.Test}[i]
			if !slices.Equal(rowsIn(p), rowsIn(other)) {
				t.Fatal("the numbers of classes decide the parts")
			}
		}
		for c := range int32(count) {
			in := func(p *Part) (k int) {
				for _, row := range rowsIn(p) {
					if classes[row] == c {
						k++
					}
				}
				return k
			}
			if size[c] > 0 && in(ds.Train) == 0 {
				t.Fatalf("class %d of %d rows does not train", c, size[c])
			}
			if size[c] < 10 {
				continue // the row that trains may be the share's
			}
			if v, want := in(ds.Val), float64(size[c])*d.Val; math.Abs(float64(v)-want) > 1 {
				t.Fatalf("class %d of %d rows: %d validate, the share is %.2f", c, size[c], v, want)
			}
			if v, want := in(ds.Test), float64(size[c])*d.Test; math.Abs(float64(v)-want) > 1 {
				t.Fatalf("class %d of %d rows: %d test, the share is %.2f", c, size[c], v, want)
			}
		}
	})
}

// Each row is in the validation part of one fold, and in the training part of all others; the test
// part is the same in all. Folds differ by a row, also of one class.
func TestDivisionByFolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, folds := rapid.IntRange(40, 300).Draw(t, "rows"), rapid.IntRange(2, 7).Draw(t, "folds")
		grouped := rapid.Bool().Draw(t, "grouped")
		d := Division{Folds: folds, Stratify: true, Test: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "test")}
		keys := &rowKeys{classes: make([]int32, n), class: func(int32) string { return "" }}
		for i := range keys.classes {
			keys.classes[i] = int32(i % 3)
		}
		if grouped {
			d.By = "g"
			keys.groups = make([]int32, n)
			for i := range keys.groups {
				keys.groups[i] = int32(i / 2)
			}
		}
		seed := rapid.Uint64().Draw(t, "seed")
		held := make([]int, n)
		var test []int
		var sizes []int
		for d.Fold = 1; d.Fold <= folds; d.Fold++ {
			ds := &Dataset{}
			if err := ds.split(&table{rows: n}, Spec{Seed: seed, Division: &d}, 0, keys); err != nil {
				t.Fatal(err)
			}
			everyRowOnce(t, n, ds.Train, ds.Val, ds.Test)
			if d.Fold > 1 && !slices.Equal(test, rowsIn(ds.Test)) {
				t.Fatal("another fold has another test part")
			}
			test = rowsIn(ds.Test)
			for _, row := range rowsIn(ds.Val) {
				held[row]++
			}
			sizes = append(sizes, ds.Val.count)
		}
		for row, k := range held {
			if want := 1; k != want && !slices.Contains(test, row) {
				t.Fatalf("row %d validates in %d folds", row, k)
			}
		}
		if !grouped && slices.Max(sizes)-slices.Min(sizes) > 1 {
			t.Fatalf("folds of %v rows", sizes)
		}
	})
}

// Rows with one value are in one part, and the parts come near their shares.
func TestDivisionByGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(200, 600).Draw(t, "rows")
		groups := make([]int32, n)
		for i := range groups {
			groups[i] = int32(rapid.IntRange(0, n/4).Draw(t, "group"))
		}
		d := &Division{Val: 0.15, Test: 0.15, By: "g"}
		ds := &Dataset{}
		if err := ds.split(&table{rows: n}, Spec{Seed: rapid.Uint64().Draw(t, "seed"), Division: d}, 0, &rowKeys{groups: groups}); err != nil {
			t.Fatal(err)
		}
		everyRowOnce(t, n, ds.Train, ds.Val, ds.Test)
		of := map[int32]*Part{}
		for _, p := range []*Part{ds.Train, ds.Val, ds.Test} {
			for _, row := range rowsIn(p) {
				if was := of[groups[row]]; was != nil && was != p {
					t.Fatalf("group %d is in two parts", groups[row])
				}
				of[groups[row]] = p
			}
		}
		for _, p := range []*Part{ds.Val, ds.Test} {
			if got := float64(p.count) / float64(n); math.Abs(got-0.15) > 0.05 {
				t.Fatalf("a part has a share of %.3f in place of 0.15", got)
			}
		}
	})
}

// writeTable writes a table, and describes it.
func writeTable(t *testing.T, rows ...string) Spec {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte(strings.Join(rows, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Spec{Source: "csv", Path: path, Seed: 3, CSV: CSVOptions{Labels: []string{"y"}, Standardize: true}}
}

// The newest rows test, and those before them validate; times count to the second, and rows of the
// same time are in the order of the file.
func TestLatestRowsTest(t *testing.T) {
	for _, c := range []struct{ name, form string }{
		{"numbers", "%d"}, {"days", "2024-02-%02d"}, {"times", "2024-02-11 10:59:%02d"}, {"fractions", "2024-02-11T10:59:01.%02dZ"}, {"words", "2024-02-%02d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := []string{"when,x,y"}
			for _, i := range []int{7, 3, 9, 1, 10, 2, 8, 8, 4, 6} {
				x := fmt.Sprint(i)
				if c.name == "words" {
					x = "word" + x
				}
				rows = append(rows, fmt.Sprintf(c.form+",%s,%d", i, x, i%2))
			}
			s := writeTable(t, rows...)
			s.Division = &Division{Val: 0.2, Test: 0.2, Latest: "when"}
			s.CSV.Ignore = []string{"when"}
			ds, err := Open(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			everyRowOnce(t, 10, ds.Train, ds.Val, ds.Test)
			if v, w := rowsIn(ds.Test), rowsIn(ds.Val); !slices.Equal(v, []int{2, 4}) || !slices.Equal(w, []int{6, 7}) {
				t.Errorf("rows %v test and %v validate", v, w)
			}
		})
	}
}

// What is fitted to the data is found in the training part: neither a value that only other rows
// have nor their scale has a say.
func TestFittedStateIsOfTheTrainingPart(t *testing.T) {
	rows := []string{"when,plan,x,y"}
	for i := range 20 {
		plan, x := "basic", i%4
		if i >= 16 {
			plan, x = "gold", 1000
		}
		rows = append(rows, fmt.Sprintf("%d,%s,%d,%d", i, plan, x, i%2))
	}
	s := writeTable(t, rows...)
	s.Division = &Division{Val: 0.1, Test: 0.1, Latest: "when"}
	s.CSV.Ignore = []string{"when"}
	ds, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if f := ds.Info.Features; slices.ContainsFunc(f, func(name string) bool { return strings.Contains(name, "gold") }) {
		t.Errorf("features %v", f)
	}
	if m := slices.Max(ds.Info.Scaling.Mean); m > 2 {
		t.Errorf("a mean of %v", m)
	}
}

// A table divides into the same rows when it is opened to evaluate, and when it has words. Other
// keys of rows are other data, although no feature is of them.
func TestDividedTableIsKnownAgain(t *testing.T) {
	for _, word := range []string{"", "word"} {
		rows := []string{"who,x,y"}
		for i := range 60 {
			rows = append(rows, fmt.Sprintf("%d,%s%d,%s", i/3, word, i%7, []string{"no", "yes", "maybe"}[i%3]))
		}
		s := writeTable(t, rows...)
		s.CSV.Ignore = []string{"who"}
		s.Division = &Division{Val: 0.2, Test: 0.2, By: "who", Stratify: true}
		ds, err := Open(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		like := s
		like.Like = &ds.Info
		again, err := Open(t.Context(), like)
		if err != nil {
			t.Fatal(err)
		}
		if again.Info.Fingerprint != ds.Info.Fingerprint || !slices.Equal(rowsIn(again.Test), rowsIn(ds.Test)) || !slices.Equal(rowsIn(again.Train), rowsIn(ds.Train)) {
			t.Errorf("%q: another division to evaluate", word)
		}
		rows[1] = strings.Replace(rows[1], "0,", "19,", 1)
		other := writeTable(t, rows...)
		other.Division, other.CSV, other.Like = s.Division, s.CSV, &ds.Info
		if again, err = Open(t.Context(), other); err != nil || again.Info.Fingerprint == ds.Info.Fingerprint || again.Val != nil {
			t.Errorf("%q: rows of other groups count as the same data: %v", word, err)
		}
		for i := range rows {
			_, rows[i], _ = strings.Cut(rows[i], ",")
		}
		other = writeTable(t, rows...)
		other.Division, other.CSV, other.Like = s.Division, CSVOptions{Labels: []string{"y"}}, &ds.Info
		if again, err = Open(t.Context(), other); err != nil || again.Val != nil || again.Train.count != 60 {
			t.Errorf("%q: other data without the column: %v", word, err)
		}
	}
}

// Files of their own are read with the columns of the training file, and are part of the
// fingerprint.
func TestPartsHaveFiles(t *testing.T) {
	s := writeTable(t, "x,plan,y", "1,a,no", "2,b,yes", "3,a,no", "4,b,yes", "5,a,yes")
	val, test := writeTable(t, "y,plan,x", "no,b,9"), writeTable(t, "x,plan,y", "1,a,yes", "7,c,no")
	s.Division = &Division{ValPath: val.Path, TestPath: test.Path}
	ds, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if ds.Train.count != 5 || ds.Val.count != 1 || ds.Test.count != 2 {
		t.Fatalf("%d, %d and %d rows", ds.Train.count, ds.Val.count, ds.Test.count)
	}
	dst := ds.Val.Alloc(1)
	if _, err := ds.Val.Read(Cursor{}, 1, dst); err != nil || shape.View[float32](dst[0])[0] <= 2 {
		t.Errorf("the feature 9 of the validation file is scaled to %v (%v)", shape.View[float32](dst[0]), err)
	}
	s.Like = &ds.Info
	again, err := Open(t.Context(), s)
	if err != nil || again.Info.Fingerprint != ds.Info.Fingerprint || again.Test.count != 2 {
		t.Errorf("to evaluate: %v, fingerprint %s after %s", err, again.Info.Fingerprint, ds.Info.Fingerprint)
	}
	if err := os.WriteFile(test.Path, []byte("x,plan,y\n1,a,yes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err = Open(t.Context(), s); err != nil || again.Info.Fingerprint == ds.Info.Fingerprint {
		t.Errorf("another test file has the same fingerprint (%v)", err)
	}
}

// A text has its parts one after the other.
func TestTextPartsAreInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("a", 70)+strings.Repeat("b", 20)+strings.Repeat("c", 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	ds, err := Open(t.Context(), Spec{Source: "text", Path: path, Text: TextOptions{Context: 3}, Division: &Division{Val: 0.2, Test: 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range []*Part{ds.Train, ds.Val, ds.Test} {
		dst := p.Alloc(p.Len())
		if _, err := p.Read(Cursor{}, p.Len(), dst); err != nil {
			t.Fatal(err)
		}
		if ids := shape.View[int32](dst[0]); slices.Min(ids) != int32(i) || slices.Max(ids) != int32(i) {
			t.Errorf("part %d has the tokens %v", i, ids)
		}
	}
}

func TestDivisionRefuses(t *testing.T) {
	table := []string{"when,who,x,y", "1,a,1,no", "2,a,2,yes", "3,b,3,no", "4,b,4,yes", "5,b,5,late"}
	for _, c := range []struct {
		d       Division
		change  func(rows []string)
		blame   string
		want    error
		message string
	}{
		{d: Division{Val: 0.5, Test: 0.5}, blame: "split", want: ErrSpec, message: "add up to less than 1"},
		{d: Division{Folds: 5, Fold: 6}, blame: "split", want: ErrSpec, message: "fold 6 of 5"},
		{d: Division{Val: 0.2, Latest: "when", By: "who"}, blame: "split", want: ErrSpec, message: "leave by"},
		{d: Division{Test: 0.01}, blame: "split", want: ErrTooFew, message: "the test part of 5 rows is empty"},
		{d: Division{Val: 0.2, By: "Who"}, blame: "split.by", want: ErrSpec, message: `did you mean "who"?`},
		{d: Division{Folds: 3, Fold: 1, By: "who"}, blame: "split", want: ErrTooFew, message: "3 folds need as many values"},
		{d: Division{Test: 0.2, Latest: "when"}, blame: "split", want: ErrTooFew, message: `class "late"`},
		{d: Division{Test: 0.2, Latest: "who"}, blame: "split.latest", want: ErrFormat, message: `t.csv:2:3 (column "who"): "a" is not a number or a date`},
		{d: Division{Test: 0.2, Latest: "when"}, change: func(r []string) { r[1] = "soon,b,3,no" }, blame: "split.latest", want: ErrFormat, message: `"soon" is not a number or a date (ymd) or a date (dmy) or a date (mdy): correct it`},
		{d: Division{Test: 0.2, Latest: "when"}, change: func(r []string) { r[3] = ",b,3,no" }, blame: "split.latest", want: ErrFormat, message: "t.csv:4:1"},
		{d: Division{Test: 0.2, Latest: "when"}, change: func(r []string) { r[3] = "2024-01-01,b,3,no" }, blame: "split.latest", want: ErrFormat, message: "as the rows above it are"},
		{d: Division{Test: 0.2, Latest: "when"}, change: func(r []string) {
			for i := range r[1:] {
				r[i+1] = fmt.Sprintf("0%d/02/2024,%d,no", i+1, i)
			}
			r[0], r[1] = "when,x,y", "01/02/2024,1,yes"
		}, blame: "split.latest", want: ErrSpec, message: "order: dmy"},
		{d: Division{ValPath: "nowhere.csv"}, blame: "split.val", want: os.ErrNotExist, message: "name an existing file"},
	} {
		rows := slices.Clone(table)
		if c.change != nil {
			c.change(rows)
		}
		s := writeTable(t, rows...)
		s.Division = &c.d
		_, err := Open(t.Context(), s)
		if !errors.Is(err, c.want) || Blame(err) != c.blame || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%+v: %v (blames %s)", c.d, err, Blame(err))
		}
	}
	s := writeTable(t, table...)
	s.Division = &Division{TestPath: s.Path}
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrSpec) || Blame(err) != "split.test" {
		t.Errorf("the training file as test: %v", err)
	}
}

func TestMoment(t *testing.T) {
	for text, want := range map[string]float64{
		"1970-01-02": 86400, "1970-01-01 00:01": 60, "1970-01-01T00:00:02.5Z": 2.5, "1970-01-01 1:00:01 PM": 13*3600 + 1, "1970-01-01T00:00+02:00": 0,
	} {
		if got, ok := columns.Moment([]byte(text), columns.YMD); !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", text, got, ok, want)
		}
	}
}
