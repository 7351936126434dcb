package datasets

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/shape"
)

// typedRow is a row with a column for each type. nil is missing.
type typedRow struct {
	Flag  *bool      `parquet:"flag,optional"`
	Size  *float64   `parquet:"size,optional"`
	Key   *int64     `parquet:"key,optional"`
	Paid  *bool      `parquet:"paid,optional"`
	Age   *int64     `parquet:"age,optional"`
	Price *float64   `parquet:"price,optional"`
	Since *time.Time `parquet:"since,optional,timestamp(millisecond)"`
	Bool  *bool      `parquet:"bool,optional"`
	Class *float64   `parquet:"class,optional"`
	Word  *string    `parquet:"word,optional"`
}

// typedNames are the columns of a typedRow.
var typedNames = []string{"flag", "size", "key", "paid", "age", "price", "since", "bool", "class", "word"}

// values are the values of a row, by column.
func (r *typedRow) values() []any {
	return []any{valueOf(r.Flag), valueOf(r.Size), valueOf(r.Key), valueOf(r.Paid), valueOf(r.Age), valueOf(r.Price), valueOf(r.Since), valueOf(r.Bool), valueOf(r.Class), valueOf(r.Word)}
}

func valueOf[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// spelling is how a program writes booleans, numbers and times.
type spelling struct {
	yes, no string
	number  func(v float64) string
	time    string
}

var numberSpellings = []func(float64) string{
	func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) },
	func(v float64) string { return strconv.FormatFloat(v, 'e', -1, 64) },
	func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) },
	func(v float64) string { // as Python has it
		if text := strconv.FormatFloat(v, 'f', -1, 64); strings.Contains(text, ".") {
			return text
		}
		return strconv.FormatFloat(v, 'f', 1, 64)
	},
}

func drawSpelling(r *rand.Rand) spelling {
	pair := [][2]string{{"True", "False"}, {"true", "false"}, {"TRUE", "FALSE"}}[r.IntN(3)]
	return spelling{pair[0], pair[1], numberSpellings[r.IntN(len(numberSpellings))], []string{time.DateTime, time.RFC3339}[r.IntN(2)]}
}

// text is a value as a field of CSV.
func (s spelling) text(v any) string {
	switch v := v.(type) {
	case bool:
		if v {
			return s.yes
		}
		return s.no
	case float64:
		return s.number(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case time.Time:
		return v.Format(s.time)
	case string:
		return v
	}
	return ""
}

// csv is rows as CSV, with some columns left out.
func (s spelling) csv(rows [][]any, leave []string) string {
	var b strings.Builder
	line := func(field func(i int) string) {
		var fields []string
		for i, name := range typedNames {
			if !slices.Contains(leave, name) {
				fields = append(fields, field(i))
			}
		}
		b.WriteString(strings.Join(fields, ",") + "\n")
	}
	line(func(i int) string { return typedNames[i] })
	for _, row := range rows {
		line(func(i int) string { return s.text(row[i]) })
	}
	return b.String()
}

// json is rows as JSON lines, with some columns left out.
func (s spelling) json(rows [][]any, leave []string) string {
	s.yes, s.no = "true", "false"
	var b strings.Builder
	for _, row := range rows {
		var fields []string
		for i, name := range typedNames {
			text := s.text(row[i])
			switch row[i].(type) {
			case nil:
				text = "null"
			case string, time.Time:
				text = strconv.Quote(text)
			}
			if !slices.Contains(leave, name) {
				fields = append(fields, strconv.Quote(name)+": "+text)
			}
		}
		b.WriteString("{" + strings.Join(fields, ", ") + "}\n")
	}
	return b.String()
}

// drawTyped draws a row. Some values are missing if that is allowed.
func drawTyped(r *rand.Rand, gaps bool) typedRow {
	sizes, keys := []float64{1, 2.5, 1e6, 0}, []int64{1, 7, 9007199254740992, 9007199254740993, -3}
	yes, no := r.IntN(2) == 0, r.IntN(2) == 0
	word := []string{"red", "blue", "1.50"}[r.IntN(3)]
	x := typedRow{
		Flag: &yes, Paid: &no, Size: &sizes[r.IntN(len(sizes))], Key: &keys[r.IntN(len(keys))], Age: new(int64), Price: new(float64), Since: new(time.Time),
		Bool: new(bool), Class: new(float64), Word: &word,
	}
	*x.Age, *x.Price = r.Int64N(90), float64(r.IntN(10000))/100
	*x.Since = time.Date(2020+r.IntN(5), time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), 0, 0, time.UTC)
	*x.Bool, *x.Class = r.IntN(2) == 0, float64(1+r.IntN(3))
	if r.IntN(8) == 0 {
		*x.Price = -999
	}
	if gaps {
		for _, p := range []func(){func() { x.Flag = nil }, func() { x.Size = nil }, func() { x.Key = nil }, func() { x.Paid = nil }, func() { x.Age = nil }, func() { x.Since = nil }} {
			if r.IntN(8) == 0 {
				p()
			}
		}
	}
	return x
}

// trainedOn are the contents of files to train on, by name. Texts have words beside the booleans and
// numbers of some columns, so that these are categories.
func trainedOn(t *testing.T, r *rand.Rand) map[string][]byte {
	var rows []typedRow
	var values [][]any
	for i := range 80 {
		x := drawTyped(r, true)
		rows = append(rows, x)
		row := x.values()
		if i%5 == 0 {
			row[0], row[1] = "Unknown", "XL"
		}
		values = append(values, row)
	}
	return map[string][]byte{
		"train.csv": []byte(drawSpelling(r).csv(values, nil)), "train.jsonl": []byte(drawSpelling(r).json(values, nil)), "train.parquet": parquetRows(t, rows),
	}
}

func parquetRows(t *testing.T, rows []typedRow) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[typedRow](&b)
	_, err := w.Write(rows)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Whatever the format of the training file, rows have the same features and classes from CSV, JSON
// lines and Parquet, and the same features as rows in Go, however booleans and numbers are spelt. The
// columns that training ignored may be absent.
func TestTypedRows(t *testing.T) {
	for i := range 40 {
		seed := rand.Uint64()
		if !typedRows(t, rand.New(rand.NewPCG(seed, 0))) {
			t.Fatalf("table %d, of seed %d", i, seed)
		}
	}
}

func typedRows(t *testing.T, r *rand.Rand) bool {
	labels := []string{"bool", "class", "word"}
	label := labels[r.IntN(len(labels))]
	ignored := slices.DeleteFunc(slices.Clone(labels), func(name string) bool { return name == label })
	s := Spec{Source: "csv", Split: 1, CSV: CSVOptions{Labels: []string{label}, Ignore: ignored, Standardize: true}}
	s.Columns = columns.Options{Missing: []string{[]string{"-999", "-999.0", "NA"}[r.IntN(3)]}, Columns: []columns.Option{{Name: columns.All, Missing: columns.FillFrequent}}}
	for _, name := range []string{"flag", "size", "key"} {
		s.Columns.Columns = append(s.Columns.Columns, columns.Option{Name: name, Kind: columns.Category, Missing: columns.FillFrequent})
	}
	var rows []typedRow
	var values [][]any
	var inGo []map[string]any
	for range 20 {
		x := drawTyped(r, true)
		rows, values = append(rows, x), append(values, x.values())
		row := map[string]any{}
		for i, v := range x.values() {
			row[typedNames[i]] = v
		}
		inGo = append(inGo, row)
	}
	files := trainedOn(t, r)
	files["new.csv"], files["new.jsonl"], files["new.parquet"] = []byte(drawSpelling(r).csv(values, ignored)), []byte(drawSpelling(r).json(values, ignored)), parquetRows(t, rows)
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, train := range []string{"train.csv", "train.jsonl", "train.parquet"} {
		s := s
		s.Path = filepath.Join(dir, train)
		info := saved(t, open(t, s).Info)
		part, err := RowInputs(info, inGo)
		if err != nil {
			t.Errorf("%s: %v", train, err)
			return false
		}
		want := readAll(t, part, 0)[0]
		var classes []byte
		for _, name := range []string{"new.csv", "new.jsonl", "new.parquet"} {
			notes := ""
			s.Note = func(text string) { notes += text }
			inputs, err := openOne(t.Context(), s, info, filepath.Join(dir, name))
			if err != nil {
				t.Errorf("%s, %s: %v", train, name, err)
				return false
			}
			like := s
			like.Path, like.Like, like.KeepOrder = filepath.Join(dir, name), info, true
			judged, err := Open(t.Context(), like)
			if err != nil {
				t.Errorf("%s, %s: %v", train, name, err)
				return false
			}
			all := readAll(t, judged.Train, 0)
			if classes == nil {
				classes = all[1]
			}
			if got := readAll(t, inputs, 0)[0]; !bytes.Equal(got, want) || !bytes.Equal(all[0], want) || !bytes.Equal(all[1], classes) || notes != "" {
				t.Errorf("%s, %s: the features or classes are others (%s)\n%s\n%s", train, name, notes, files[train], files[name])
				return false
			}
		}
	}
	return true
}

// A model whose classes are the two words of a boolean knows a class by any such word.
func TestBooleanClasses(t *testing.T) {
	for _, trained := range []string{"false true", "no yes", "off on"} {
		words := strings.Fields(trained)
		rows := "x,k\n"
		for i := range 8 {
			rows += strconv.Itoa(i*i%5) + "," + words[i%2] + "\n"
		}
		info := open(t, Spec{Source: "csv", Path: write(t, "a.csv", rows)}).Info
		for _, text := range []string{"x,k\n1,yes\n2,no\n", "x,k\n1,True\n2,False\n", "x,k\n1,ON\n2,off\n"} {
			s := Spec{Source: "csv", Path: write(t, "b.csv", text), Like: saved(t, info), KeepOrder: true}
			ds, err := Open(t.Context(), s)
			if err != nil {
				t.Errorf("%s, then %q: %v", trained, text, err)
			} else if got := shape.View[int32](readAll(t, ds.Train, 0)[1]); !slices.Equal(got, []int32{1, 0}) {
				t.Errorf("%s, then %q: classes %v", trained, text, got)
			}
		}
	}
}
