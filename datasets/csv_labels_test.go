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
	if !slices.Equal(ds.Info.TargetNames, []string{"price", "rent"}) || len(ds.Notes) == 0 || !strings.Contains(ds.Notes[0], "1 of 5 rows lack one of the labels and are left out") {
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

// Labels that were named by number are those of the training file by name, wherever another file has
// them. Columns that training ignored may be absent there.
func TestLabelsOfAModel(t *testing.T) {
	numbers := "id,a,b,k\n9,1,5,0\n8,2,3,1\n7,3,9,1\n6,4,2,0\n"
	words := strings.NewReplacer("a,b", "a,w", ",1\n", ",yes\n", ",0\n", ",no\n").Replace(numbers)
	for _, c := range []struct{ train, labels, ignore, task, other, says string }{
		{numbers, "", "id", "", "k,b,a\n0,5,1\n1,3,2\n1,9,3\n0,2,4\n", ""},
		{numbers, "3", "0", TaskRegression, "k,b,a\n0,5,1\n1,3,2\n1,9,3\n0,2,4\n", ""},
		{words, "-1", "0", "", "k,id,w,a\nno,9,5,1\nyes,8,3,2\nyes,7,9,3\nno,6,2,4\n", ""},
		{numbers, "-1,b", "id", TaskRegression, "k,b,a\n0,5,1\n1,3,2\n1,9,3\n0,2,4\n", ""},
		{numbers, "", "", "", "id,a,b,K\n9,1,5,0\n", `there is no label column "k" among id, a, b, K; did you mean "K"?`},
		{numbers, "", "", "", "id,a,b,k_of,kx\n9,1,5,0,0\n", `there is no label column "k" among id, a, b, k_of, kx;`},
		{strings.Replace(numbers, "k", "churn", 1), "", "", "", "id,a,b,churned\n9,1,5,0\n", `there is no label column "churn" among id, a, b, churned; did you mean "churned"?`},
		{numbers, "", "", "", "id,a,k\n9,1,0\n", `lacks the column "b" that the model was trained on; it has id, a, k; give the column, or train anew with data.columns: {b: {missing: median}}, and the file may lack it`},
		{numbers, "b", "id", TaskRegression, "id,a,b,k\n9,1,5,0\n9,1,\"5\r0\",0\n", `other.csv:3:5 (column "b"): "5\r0" is not a number: the column is the label: correct it, take the row out or, if it stands for a missing value, train anew with data.missing: ["NA", `},
		{numbers, "a,b", "id", TaskRegression, "id,a,b,k\n9,1,5,x\n", `(column "k"): "x" is not a number: correct it$`},
		{numbers, "a,b", "id", TaskRegression, "id,a,b,k\n9,1,5,\n", `(column "k"): empty field: fill it in$`},
		{"a,b,k\n1,0,1\n2,1,0\n", "b,k", "", TaskMultilabel, "a,b,k\n1,0,some\n", `and the task is multilabel: correct it$`},
		{numbers, "", "id", "", "a,b,k\n1,5,0\n3,5,7\n", `other.csv:3:5 (column "k"): "7" is no class of the model, which was trained on 0, 1`},
	} {
		s := Spec{Source: "csv", Path: write(t, "train.csv", c.train), Split: 1, KeepOrder: true, CSV: CSVOptions{Task: c.task}}
		for _, list := range []struct {
			text string
			into *[]string
		}{{c.labels, &s.CSV.Labels}, {c.ignore, &s.CSV.Ignore}} {
			if list.text != "" {
				*list.into = strings.Split(list.text, ",")
			}
		}
		want := open(t, s)
		s.Path, s.Like = write(t, "other.csv", c.other), saved(t, want.Info)
		got, err := Open(t.Context(), s)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error()+"$", c.says) {
				t.Errorf("%q: %v, want %q", c.other, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.other, err)
			continue
		}
		for i, b := range readAll(t, want.Train, 0) {
			if !slices.Equal(readAll(t, got.Train, 0)[i], b) {
				t.Errorf("%q: field %d is another", c.other, i)
			}
		}
	}
}

// The list of words for a missing value that is advised keeps those that are given, or the usual ones.
func TestAdvisedMissingWords(t *testing.T) {
	rows := []string{"w,price", "a,1", "b,2", "zz,3", "n/a,4", "NULL,5", "a,none"}
	for _, c := range []struct {
		given []string
		want  string
	}{
		{[]string{"zz"}, `write data.missing: ["zz", "none"]; `},
		{nil, `write data.missing: ["NA", "na", "Na", "N/A", "n/a", "null", "NULL", "Null", "?", "nan", "NaN", "NAN", "none"]; `},
	} {
		s := Spec{Split: 1, CSV: CSVOptions{Task: TaskRegression}, Columns: columns.Options{Missing: c.given}}
		if _, err := openRows(t, rows, s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.given, err, c.want)
		}
	}
}

// Several labels of a model are in its order. A file may name them otherwise, but not one in the place
// of another.
func TestOrderOfSeveralLabels(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "train.csv", "x,price,rent\n1,100,1\n2,300,2\n3,200,4\n"), Split: 1, KeepOrder: true, CSV: CSVOptions{Labels: []string{"price", "rent"}, Task: TaskRegression}}
	s.Like = saved(t, open(t, s).Info)
	want := []float32{100, 1, 300, 2, 200, 4}
	for _, c := range []struct{ path, labels, says string }{
		{s.Path, "rent,price", ""},
		{write(t, "other.csv", "x,rent,cost\n1,1,100\n2,2,300\n3,4,200\n"), "cost,rent", ""},
		{s.Path, "rent,x", `the label "rent" is in the place of "price": the model has the labels price, rent`},
	} {
		s.Path, s.CSV.Labels = c.path, strings.Split(c.labels, ",")
		ds, err := Open(t.Context(), s)
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) || Blame(err) != "label" {
				t.Errorf("%s: %v, want %q", c.labels, err, c.says)
			}
		case err != nil:
			t.Errorf("%s: %v", c.labels, err)
		case !slices.Equal(targetsOf(t, ds.Train), want):
			t.Errorf("%s: targets %v, want %v", c.labels, targetsOf(t, ds.Train), want)
		}
	}
}

// In JSON lines, the label is the last key of the first object only if no other object has further
// keys; otherwise it must be named.
func TestLastKey(t *testing.T) {
	const first = `{"a": 1, "k": "x"}` + "\n"
	for _, c := range []struct{ text, label, says string }{
		{first + `{"k": "y", "a": 2}` + "\n" + `{"k": "x"}`, "", ""},
		{first + `{"k": "y", "late": 7, "a": 2}`, "", `the objects have different keys (the first lacks "late"), so none is the last: name it with data.label`},
		{first + `{"k": "y", "late": 7, "a": 2}`, "-2", "name it with data.label"},
		{first + `{"k": "y", "late": 7, "a": 2}`, "k", ""},
		{first + `{"k": "y", "late": 7, "a": 2}`, "kay", `there is no label column "kay" among a, k, late`},
	} {
		s := Spec{Source: "csv", Path: write(t, "x.jsonl", c.text), Split: 1}
		if c.label != "" {
			s.CSV.Labels = []string{c.label}
		}
		ds, err := Open(t.Context(), s)
		if c.says == "" && (err != nil || !slices.Equal(ds.Info.Labels, []string{"k"})) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || Blame(err) != "label") {
			t.Errorf("%q: label %q: %v, want %q", c.text, c.label, err, c.says)
		}
	}
}

// A label with a class of its own in most rows is a key. Classes that come again are not.
func TestClassesOfTheirOwn(t *testing.T) {
	for most, refused := range map[int]bool{60: true, 31: true, 30: false, 20: false} {
		text := "x,k\n"
		for i := range 60 {
			text += fmt.Sprintf("%d,k%d\n", i, min(i, most)) // so many rows with a class of their own
		}
		_, err := Open(t.Context(), Spec{Source: "csv", Path: write(t, "a.csv", text)})
		says := err != nil && strings.Contains(err.Error(), "rows have a class of their own")
		if says != refused || err != nil && !refused {
			t.Errorf("%d rows of 60 with a class of their own: %v", most, err)
		}
	}
}

// A label that holds no classes is said to, also where its parts would be empty: stratified, a class with one row
// trains.
func TestNoClassesToDivide(t *testing.T) {
	for label, says := range map[string]string{
		"price": "60 different numbers in 60 rows",
		"key":   "60 of 60 rows have a class of their own",
	} {
		for _, words := range []string{"3", "plus"} { // a table of numbers, and one of any kinds
			text := "x,key,price\n"
			for i := range 60 {
				text += fmt.Sprintf("%s,k%d,%d\n", words, i, 1000+7*i)
			}
			s := Spec{Source: "csv", Path: write(t, "a.csv", text), Division: &Division{Val: 0.2, Stratify: true}, CSV: CSVOptions{Labels: []string{label}}}
			if label == "price" {
				s.CSV.Ignore = []string{"key"}
			}
			if _, err := Open(t.Context(), s); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("label %s, words %s: %v, want %s", label, words, err, says)
			}
		}
	}
}

// The task that a word among numbers suggests is one for as many labels.
func TestTaskOfWords(t *testing.T) {
	for want, labels := range map[string][]string{"classification": {"hot"}, "multilabel": {"hot", "wet"}} {
		s := Spec{Source: "csv", Path: write(t, "a.csv", "x,hot,wet\n1,yes,no\n2,no,yes\n"), CSV: CSVOptions{Labels: labels, Task: TaskRegression}}
		if _, err := Open(t.Context(), s); err == nil || !strings.Contains(err.Error(), "set data.task to "+want) {
			t.Errorf("%v: %v", labels, err)
		}
	}
}
