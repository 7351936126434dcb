package datasets

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/shape"
)

// openRows opens a table of rows of text.
func openRows(t *testing.T, rows []string, s Spec) (*Dataset, error) {
	t.Helper()
	s.Source, s.Path = "csv", filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(s.Path, []byte(strings.Join(rows, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), s)
}

// targetsOf are the targets of a part in the order of the file.
func targetsOf(t *testing.T, p *Part) []float32 {
	t.Helper()
	c := &p.table.columns[len(p.table.columns)-1]
	out := make([]float32, p.table.rows*c.field.Meta.Elems())
	for i := range p.table.rows {
		c.fill(i, shape.Bytes(out)[i*c.size:(i+1)*c.size])
	}
	return out
}

// Labels that are each 0 or 1 are read from numbers and from words, in a table of numbers and in
// one with kinds.
func TestMultilabel(t *testing.T) {
	for kind, word := range map[string]string{"numbers": "7", "kinds": "red"} {
		rows := []string{"hot,x,wet,dark"}
		for range 5 {
			rows = append(rows, "1,1.5,no,TRUE", "0.0,2.5,Yes,false")
		}
		rows = append(rows, "1,"+word+",off,y")
		s := Spec{Split: 1, CSV: CSVOptions{Labels: []string{"hot", "wet", "dark"}, Task: TaskMultilabel}}
		if word == "red" {
			s.Columns.Columns = []columns.Option{{Name: "x", Kind: columns.Category}}
		}
		ds, err := openRows(t, rows, s)
		if err != nil {
			t.Fatal(err)
		}
		want := append(slices.Repeat([]float32{1, 0, 1, 0, 1, 0}, 5), 1, 0, 1)
		if got := targetsOf(t, ds.Train); !slices.Equal(got, want) {
			t.Errorf("%s: targets %v, want %v", kind, got, want)
		}
		if got := fmt.Sprint(ds.Info.TargetNames, ds.Info.Target.Meta, ds.Info.Classes); got != "[hot wet dark] f32[3] 0" {
			t.Errorf("%s: %s", kind, got)
		}
	}
	for row, want := range map[string]string{
		"2,1.5,no,yes":     `rows.csv:12:1 (column "hot"): "2" is neither 0 nor 1, nor a word for one such as yes and no`,
		"1,1.5,no,perhaps": `rows.csv:12:10 (column "dark"): "perhaps" is neither 0 nor 1`,
	} {
		rows := append([]string{"hot,x,wet,dark"}, slices.Repeat([]string{"1,1.5,no,true"}, 10)...)
		_, err := openRows(t, append(rows, row), Spec{Split: 1, CSV: CSVOptions{Labels: []string{"hot", "wet", "dark"}, Task: TaskMultilabel}})
		if err == nil || !strings.Contains(err.Error(), want) || Blame(err) != "task" {
			t.Errorf("%s: %v, want %q", row, err, want)
		}
	}
}

// Each of several numbers to predict is scaled by its own mean and deviation. A row that lacks one
// of them is left out.
func TestSeveralNumbers(t *testing.T) {
	rows := []string{"kind,price,rent", "a,100,1", "b,300,2", "a,100,", "b,300,2", "a,100,1"}
	ds, err := openRows(t, rows, Spec{Split: 1, ScaleTarget: true, CSV: CSVOptions{Labels: []string{"price", "rent"}, Task: TaskRegression}})
	if err != nil {
		t.Fatal(err)
	}
	if got := targetsOf(t, ds.Train); !slices.Equal(got, []float32{-1, -1, 1, 1, 1, 1, -1, -1}) {
		t.Errorf("targets %v", got)
	}
	if s := ds.Info.TargetScaling; !slices.Equal(s.Mean, []float64{200, 1.5}) || !slices.Equal(s.Std, []float64{100, 0.5}) {
		t.Errorf("scaled by %v", s)
	}
	if !slices.Equal(ds.Info.TargetNames, []string{"price", "rent"}) || len(ds.Notes) == 0 || !strings.Contains(ds.Notes[0], "1 of 5 rows have no label") {
		t.Errorf("%v %v", ds.Info.TargetNames, ds.Notes)
	}
}

// Balanced weights are of the training part, by hand: n/(k·count) of classes, and zeros for each
// one of bits. A class or label that does not vary there has 1.
func TestBalanced(t *testing.T) {
	rows := []string{"x,class,bit,none"}
	for i := range 12 {
		rows = append(rows, fmt.Sprintf("%d,%s,%d,0", i, []string{"a", "a", "b", "c"}[i%4], map[bool]int{true: 1}[i%6 == 0]))
	}
	classes, err := openRows(t, rows, Spec{Split: 1, Balance: true, CSV: CSVOptions{Labels: []string{"class"}, Ignore: []string{"bit"}}})
	if err != nil || !slices.Equal(classes.Info.Balanced, []float64{12. / (3 * 6), 12. / (3 * 3), 12. / (3 * 3)}) {
		t.Errorf("%v, %v", classes, err)
	}
	// A label that never changes is noted, too.
	bits, err := openRows(t, rows, Spec{Split: 1, Balance: true, CSV: CSVOptions{Labels: []string{"bit", "none"}, Ignore: []string{"class"}, Task: TaskMultilabel}})
	if err != nil || !slices.Equal(bits.Info.Balanced, []float64{10. / 2, 1}) || !slices.Contains(bits.Notes, `the label "none" is 0 in every row, so there is nothing to learn about it`) {
		t.Errorf("%v, %v", bits, err)
	}
	part, err := openRows(t, rows, Spec{Split: 0.5, Balance: true, CSV: CSVOptions{Labels: []string{"class"}, Ignore: []string{"bit"}}})
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]float64, 3)
	dst := part.Train.Alloc(6)
	if _, err := part.Train.Read(Cursor{}, 6, dst); err != nil {
		t.Fatal(err)
	}
	for _, class := range shape.View[int32](dst[1]) {
		counts[class]++
	}
	if !slices.Equal(counts, []float64{4, 0, 2}) || !slices.Equal(part.Info.Balanced, []float64{6. / (2 * 4), 1, 6. / (2 * 2)}) {
		t.Errorf("a part with the classes %v has the weights %v", counts, part.Info.Balanced)
	}
}
