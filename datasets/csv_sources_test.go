package datasets

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/shape"
)

// kept is an Info as a checkpoint keeps it.
func kept(t *testing.T, in Info) *Info {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := &Info{}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// tableOf is a table below a header, with empty fields in its second column.
func tableOf(header string, row func(i int, second string) []string) string {
	var b strings.Builder
	fmt.Fprintln(&b, header)
	for i := range 100 {
		second := fmt.Sprint(i % 7)
		if i%9 == 0 {
			second = ""
		}
		fmt.Fprintln(&b, strings.Join(row(i, second), ","))
	}
	return b.String()
}

// Columns whose names are numbers are found by name in the training file, in a file in another
// order, and in one with other columns. The last two checkpoints are those of earlier versions.
func TestNamesThatAreNumbers(t *testing.T) {
	row := func(i int, second string) []string {
		return []string{fmt.Sprint(i % 5), second, fmt.Sprint(10 + i%3), fmt.Sprint(i % 2)}
	}
	for _, header := range []string{"1,2,3,y", "-1,0,1,y", "0,7,-3,y"} {
		s := Spec{Source: "csv", Path: write(t, "x.csv", tableOf(header, row)), CSV: CSVOptions{Labels: []string{"y"}}}
		ds := open(t, s)
		turned := strings.Split(header, ",")
		slices.Reverse(turned)
		other := tableOf(strings.Join(turned, ",")+",more", func(i int, second string) []string {
			fields := row(i, second)
			slices.Reverse(fields)
			return append(fields, "9")
		})
		for _, early := range []bool{false, true} {
			s.Like, s.GoesOn = kept(t, ds.Info), true
			if early {
				s.Like.Columns.Header = false
			}
			for _, path := range []string{s.Path, write(t, "y.csv", other)} {
				like := s
				like.Path = path
				again := open(t, like)
				if !slices.Equal(rowsOfPart(t, again.Train), rowsOfPart(t, ds.Train)) {
					t.Errorf("header %s, early %v, %s: other samples", header, early, path)
				}
				if path == s.Path && again.Info.Fingerprint != ds.Info.Fingerprint {
					t.Errorf("header %s: another fingerprint", header)
				}
			}
		}
		first := strings.Join(strings.Split(header, ",")[:3], ",")
		parts, err := OpenInputs(t.Context(), s, s.Like, write(t, "new.csv", "label,"+first+"\n0,1,2,3\n"))
		if err != nil || parts[0].Len() != 1 {
			t.Errorf("header %s: %v", header, err)
		}
		s.Like = kept(t, ds.Info)
		if parts, err = OpenInputs(t.Context(), s, s.Like, write(t, "new.csv", first+"\n1,2,3\n")); err != nil || parts[0].Len() != 1 {
			t.Errorf("header %s: the header is taken as a row: %v", header, err)
		}
		if _, err = OpenInputs(t.Context(), s, s.Like, write(t, "new.csv", "8,8,8,8,8\n5,6,7,8,9\n")); !errors.Is(err, ErrFormat) {
			t.Errorf("header %s: five columns without names: %v", header, err)
		}
	}
}

// With data.missing: [], the empty field alone is missing, also to a checkpoint.
func TestNothingButEmptyIsMissing(t *testing.T) {
	var b strings.Builder
	b.WriteString("land,x,y\n")
	for i := range 100 {
		fmt.Fprintf(&b, "%s,%d,%s\n", []string{"NA", "DE", "FR"}[i%3], i, []string{"a", "b"}[i%2])
	}
	s := Spec{Source: "csv", Path: write(t, "x.csv", b.String()), Columns: columns.Options{Missing: []string{}}}
	ds := open(t, s)
	s.Like = kept(t, ds.Info)
	again := open(t, s)
	if again.Info.Fingerprint != ds.Info.Fingerprint || !slices.Equal(rowsOfPart(t, again.Train), rowsOfPart(t, ds.Train)) {
		t.Error("other samples")
	}
	if text, err := open(t, Spec{Source: "csv", Path: s.Path}).Info.Columns.Text(); err != nil || strings.Contains(text, "Missing") {
		t.Errorf("%s %v: the words are those of every version, which wrote none", text, err)
	}
}

// A file without a header is evaluated by the places of its features. One with fewer of them
// would have the label stand for a feature.
func TestWidthWithoutHeader(t *testing.T) {
	row := func(i int, second string) []string {
		return []string{fmt.Sprint(i % 5), second, fmt.Sprint(10 + i%3), fmt.Sprint(i % 2)}
	}
	for _, header := range []string{"a,b,c,y", "0,1,2,3"} {
		s := Spec{Source: "csv", Path: write(t, "x.csv", tableOf(header, row))}
		if header == "0,1,2,3" { // the first row
			s.CSV.Header = HeaderNo
		}
		ds := open(t, s)
		s.Like, s.CSV.Header = &ds.Info, HeaderNo
		s.Path = write(t, "narrow.csv", "1,2,0\n3,4,1\n")
		if _, err := Open(t.Context(), s); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "narrow.csv has 2 features without names that the model knows") {
			t.Errorf("header %s: %v", header, err)
		}
		s.Path = write(t, "wide.csv", "1,2,11,0\n3,,12,1\n")
		again := open(t, s)
		if got := rowsOfPart(t, again.Train); !strings.HasPrefix(got[0], "[1 2 0 11]") {
			t.Errorf("header %s: %v", header, got)
		}
	}
}

// A file that lacks columns, or has values that training never saw, is read with notes.
func TestNotesOfFiles(t *testing.T) {
	var b strings.Builder
	b.WriteString("spend,plan,first_order,paid,y\n")
	for i := range 60 {
		fields := []string{fmt.Sprint(30 + i%5), []string{"gold", "free"}[i%2], fmt.Sprintf("2024-02-%02d", i%28+1), []string{"yes", "no"}[i%3/2], fmt.Sprint(i % 2)}
		if i%10 == 0 {
			fields[0], fields[1], fields[2], fields[3] = "", "", "", ""
		}
		fmt.Fprintln(&b, strings.Join(fields, ","))
	}
	s := Spec{Source: "csv", Path: write(t, "x.csv", b.String()), Seed: 1, CSV: CSVOptions{Labels: []string{"y"}}}
	ds := open(t, s)
	for text, want := range map[string]string{
		"spend,plan,first_order,paid\n1,gold,2024-01-01,yes\n": "",
		"Spend,plan,first_order,paid\n1,gold,2024-01-01,yes\n": `FILE lacks the column "spend": the median 33 stands for it in all rows; the file has "Spend": is that the column?`,
		"spend,plan,first oder\n1,gold,2024-01-01\n": `FILE lacks the column "first_order": the median 2024-02-15 stands for it in all rows; the file has "first oder": is that the column?
FILE lacks the column "paid": the most frequent value, yes, stands for it in all rows`,
		"spend,first_order,paid\n1,2024-01-01,yes\n": `FILE lacks the column "plan": the most frequent value "free" stands for it in all rows`,
		"spend,plan,first_order,paid\n1,platinum,2024-01-01,yes\n1,,2024-01-01,yes\n1,platinum,2024-01-01,yes\n1,free,2024-01-01,yes\n1,tin,2024-01-01,yes\n": `3 of 5 values of "plan" were not in training: "platinum", "tin"`,
		"spend,plan,first_order,paid\n1,a,2024-01-01,yes\n1,b,2024-01-01,yes\n1,c,2024-01-01,yes\n1,d,2024-01-01,yes\n":                                       `4 of 4 values of "plan" were not in training: "a", "b", "c" and others`,
	} {
		var notes []string
		predict := s
		predict.Note = func(text string) { notes = append(notes, text) }
		path := write(t, "new.csv", text)
		if _, err := OpenInputs(t.Context(), predict, &ds.Info, path); err != nil {
			t.Error(err)
		}
		if got := strings.ReplaceAll(strings.Join(notes, "\n"), path, "FILE"); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		eval := s
		eval.Like, eval.Path = &ds.Info, write(t, "eval.csv", labelled(text))
		if got := strings.ReplaceAll(strings.Join(open(t, eval).Notes, "\n"), eval.Path, "FILE"); got != want {
			t.Errorf("eval of %q: %s, want %s", text, got, want)
		}
	}
}

// labelled adds a label to each row.
func labelled(text string) string {
	header, rows, _ := strings.Cut(text, "\n")
	return header + ",y\n" + strings.ReplaceAll(rows, "\n", ",1\n")
}

// Notes ask about labels that become classes and are probably no classes.
func TestNotesOfLabels(t *testing.T) {
	for name, x := range map[string]struct {
		label func(i int) string
		want  string
	}{
		"classes":     {func(i int) string { return fmt.Sprint("c", i%3) }, ""},
		"few numbers": {func(i int) string { return fmt.Sprint(i % 100) }, ""},
		"numbers":     {func(i int) string { return fmt.Sprint(i % 101) }, `the label "y" has 101 different numbers, and each is a class: data.task: regression predicts the number itself`},
		"dates":       {func(i int) string { return fmt.Sprintf("2024-02-%02d", i%9+1) }, `the label "y" holds dates, and each of its 9 different ones is a class: data.label takes another column`},
		"keys":        {func(i int) string { return fmt.Sprint("k", i%160) }, `the label "y" has 160 classes in 300 rows, as a text or a key has: data.label takes another column`},
		"words":       {func(i int) string { return fmt.Sprint("k", i%140) }, `the label "y" has 140 classes`},
		"one sample":  {func(i int) string { return []string{"a", "b", "rare"}[i%2+i/299] }, `the label "y" has one sample alone of 1 of its 3 classes, which is trained on or validates, but not both: rare`},
		"case":        {func(i int) string { return []string{"Yes", "no", "yes"}[i%3] }, `the classes "Yes" and "yes" of the label "y" differ in upper and lower case alone: if they are the same, spell them so in the file`},
	} {
		for header, word := range map[string]string{"a,b,y": "7.5", "w,b,y": "word"} {
			var b strings.Builder
			fmt.Fprintln(&b, header)
			for i := range 300 {
				fmt.Fprintf(&b, "%s,%d,%s\n", []string{word, "3"}[i%2], i%13, x.label(i))
			}
			s := Spec{Source: "csv", Path: write(t, "x.csv", b.String())}
			if word == "word" {
				s.Columns.Columns = []columns.Option{{Name: "w", Kind: columns.Category}}
			}
			if got := strings.Join(open(t, s).Notes, "\n"); got != x.want {
				t.Errorf("%s: %s, want %s", name, got, x.want)
			}
		}
	}
}

// A table of numbers whose features are named by numbers goes by name, too.
func TestNumbersNamedByNumbers(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "x.csv", "2019,2020,sales\n1,20,0\n2,30,1\n3,40,0\n4,50,1\n"), Split: 1}
	like := kept(t, open(t, s).Info)
	for name, text := range map[string]string{
		"turned.csv":   "2020,2019,sales\n70,7,0\n",
		"features.csv": "2020,2019\n70,7\n",
		"turned.jsonl": `{"2020": 70, "2019": 7, "sales": 0}` + "\n",
	} {
		parts, err := OpenInputs(t.Context(), s, like, write(t, name, text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := shape.View[float32](readAll(t, parts[0], 0)[0]); !slices.Equal(got, []float32{7, 70}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, err := OpenInputs(t.Context(), s, like, write(t, "absent.csv", "2019,sales\n7,0\n")); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `lacks the column "2020"`) {
		t.Errorf("an absent feature: %v", err)
	}
	s.Like, s.Path = like, write(t, "eval.csv", "2020,2019,sales\n70,7,1\n")
	if got := rowsOfPart(t, open(t, s).Train); !slices.Equal(got, []string{"[7 70] 1"}) {
		t.Errorf("evaluated: %v", got)
	}
}

// A table of numbers alone has the question about a name like that of a column it lacks, too.
func TestNamesLikeLackingNumbers(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "x.csv", "spend,visits,y\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n"), Split: 1}
	ds := open(t, s)
	_, err := OpenInputs(t.Context(), s, &ds.Info, write(t, "new.csv", "Spend,visits\n1,2\n"))
	if err == nil || !strings.HasSuffix(err.Error(), `it has Spend, visits; the file has "Spend": is that the column?`) {
		t.Error(err)
	}
}
