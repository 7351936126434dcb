package columns

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// found finds the columns of rows of text, divided by commas.
func found(t testing.TB, rows []string, o Options) (*Finder, *Fitted, []Description, error) {
	t.Helper()
	names := make([]string, strings.Count(rows[0], ",")+1)
	for i := range names {
		names[i] = string(rune('a' + i))
	}
	f, err := NewFinder(names, o, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	fields := func(row string) (out [][]byte) {
		for word := range strings.SplitSeq(row, ",") {
			out = append(out, []byte(word))
		}
		return out
	}
	for again := true; again; again = f.Again() {
		for i, row := range rows {
			if err := f.Add(fields(row), func(column int) string { return fmt.Sprintf("%d:%d", i+1, column+1) }); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	fitted, err := f.Found()
	if err != nil {
		return nil, nil, nil, err
	}
	var cells [][]int32
	for _, row := range rows {
		row, words := make([]int32, len(fitted.Columns)), fields(row)
		for i, j := range f.Sources() {
			if row[i], err = fitted.Cell(i, words[j]); err != nil {
				return nil, nil, nil, err
			}
		}
		cells = append(cells, row)
	}
	list, err := f.Measure(fitted, len(rows), 0, func(yield func([]int32)) {
		for _, row := range cells {
			yield(row)
		}
	})
	return f, fitted, list, err
}

// column is n rows of one column.
func column(n int, word func(i int) string) (rows []string) {
	for i := range n {
		rows = append(rows, word(i))
	}
	return rows
}

// The thresholds that docs/tables.md states decide the kind of a column.
func TestFinds(t *testing.T) {
	pick := func(words ...string) func(int) string { return func(i int) string { return words[i%len(words)] } }
	cases := map[string]struct {
		rows []string
		want Kind
	}{
		"numbers":             {column(40, func(i int) string { return fmt.Sprint(i, ".5") }), Number},
		"numbers and nothing": {column(40, pick("1", "", "NA", "n/a", "NULL", "?", "NaN", "-2e-3")), Number},
		"codes":               {column(40, pick("7", "8")), Number},
		"yes and no":          {column(40, pick("Yes", "no", "")), Boolean},
		"only yes":            {column(40, pick("yes")), Category},
		"true and yes":        {column(40, pick("true", "yes")), Category},
		"words":               {column(40, pick("red", "blue")), Category},
		"some numbers":        {column(40, pick("S", "M", "38", "L", "40")), Category},
		"few words":           {column(32, func(i int) string { return fmt.Sprint("w", i) }), Category},
		"a word a row":        {column(33, func(i int) string { return fmt.Sprint("w", i) }), Identifier},
		"eight of ten differ": {column(100, func(i int) string { return fmt.Sprint("w", min(i, 80)) }), Category},
		"sentences":           {column(40, func(i int) string { return fmt.Sprint("it was day ", i) }), Text},
		"names":               {column(40, func(i int) string { return fmt.Sprint("Ann Smith", i) }), Identifier},
		"days":                {column(40, func(i int) string { return fmt.Sprintf("2024-02-%02d", i%29+1) }), Date},
		"days and times":      {column(40, func(i int) string { return fmt.Sprintf("2024/3/%dT%02d:59:00.5+02:00", i%29+1, i%24) }), Date},
		"German days":         {column(40, func(i int) string { return fmt.Sprintf("%02d.02.2024", i%29+1) }), Date},
		"American days":       {column(40, func(i int) string { return fmt.Sprintf("02/%02d/2024 1:05 PM", i%29+1) }), Date},
		"nothing":             {column(40, pick("", "?")), Ignore},
	}
	for name, c := range cases {
		_, _, list, err := found(t, append(c.rows, c.rows[0]), Options{})
		if err != nil || list[0].Kind != c.want {
			t.Errorf("%s: %v %v, want %s", name, list, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		rows []string
		at   string
	}{
		"a word among many numbers": {append(column(900, func(i int) string { return fmt.Sprint(i) }), column(100, func(i int) string { return fmt.Sprint("w", i) })...), "901:1"},
		"one word beside numbers":   {column(10, pick("1", "none", "none")), "2:1"},
		"a word among days":         {append(column(40, pick("2024-01-01", "2024-01-02")), "soon"), "41:1"},
	} {
		var field *FieldError
		if _, _, _, err := found(t, c.rows, Options{}); !errors.As(err, &field) || field.At != c.at {
			t.Errorf("%s: %v, want %v", name, err, c.at)
		}
	}
}

// A date is read in its order, to the hour, and other texts are refused.
func TestDates(t *testing.T) {
	for text, want := range map[string]string{
		"2024-02-29": "2024-02-29 00", "1999/1/2 3:04": "1999-01-02 03", "2024.12.31T23:59:59.999Z": "2024-12-31 23", "0001-01-01": "0001-01-01 00",
		"2024-02-30": "", "2024-13-01": "", "24-01-01": "", "2024-01/01": "", "2024-01-01x": "", "2024-01-01 25:00": "", "2024-01-01 10": "",
		"2024-01-01 10:5": "", "2024-01-01 12:00 AM": "2024-01-01 00", "2024-01-01 12:00 pm": "2024-01-01 12", "2024-01-01T10:00:00+0530": "2024-01-01 10",
		"2024-01-01 13:00 PM": "", "2024-001-01": "", "": "", "2024": "", "9999-12-31": "9999-12-31 00", "2024-01-01T10:00+": "", "2024-1-1 10:00:61": "",
	} {
		got := ""
		if hours, ok := date([]byte(text), YMD); ok {
			got = time.Unix(int64(hours)*3600, 0).UTC().Format("2006-01-02 15")
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if d, ok := date([]byte("3.2.2024"), DMY); !ok || dateText(d) != "2024-02-03" {
		t.Error(dateText(d), ok)
	}
	if d, ok := date([]byte("3-2-2024"), MDY); !ok || dateText(d) != "2024-03-02" {
		t.Error(dateText(d), ok)
	}
}

// Features are what docs/tables.md says of each kind.
func TestFeatures(t *testing.T) {
	rows := []string{"1,gold,2024-01-01,yes", "?,gold,2024-01-03 12:00,no", "3,,,yes", "5,free,2024-01-02,", "9,silver,2024-01-02,yes"}
	_, f, list, err := found(t, rows, Options{Columns: []Option{{Name: "b", Top: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	want := "[a a missing b=gold b=free b=other b missing c year c month c weekday c hour c days before c missing d d missing]"
	if fmt.Sprint(f.Names()) != want {
		t.Errorf("%v, want %s", f.Names(), want)
	}
	dst := make([]float32, f.Features())
	for row, want := range map[string][]float32{
		"1|gold|2024-01-01|yes":      {1, 0, 1, 0, 0, 0, 2024, 1, 0, 0, 2.5, 0, 1, 0},
		"|unheard|2024-01-04 12:00|": {3, 1, 0, 0, 1, 0, 2024, 1, 3, 12, -1, 0, 1, 1},
		"7|NA|null|FALSE":            {7, 0, 1, 0, 0, 1, 2024, 1, 1, 0, 1.5, 1, 0, 0},
	} {
		var fields [][]byte
		for word := range strings.SplitSeq(row, "|") {
			fields = append(fields, []byte(word))
		}
		if err := f.Row(fields, dst); err != nil || !slices.Equal(dst, want) {
			t.Errorf("%s: %v %v, want %v", row, dst, err, want)
		}
	}
	for i, scaled := range f.Scaled() {
		if want := i == 0 || i >= 6 && i <= 10; scaled != want {
			t.Errorf("%s: scaled is %v", f.Names()[i], scaled)
		}
	}
	if list[1].Features != 4 || list[0].Missing != 1 || list[0].Range != "1 to 9" || list[2].Range != "2024-01-01–2024-01-03" {
		t.Errorf("%+v", list)
	}
}

// A fill may be the most frequent value, and a column may have to be there.
func TestFills(t *testing.T) {
	rows := []string{"1,5", "9,5", "9,6", "2,7", "8,8"}
	_, f, _, err := found(t, rows, Options{Columns: []Option{{Name: "a", Missing: FillFrequent}}})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]float32, f.Features())
	if err := f.Row([][]byte{nil, []byte("5")}, dst); err != nil || !slices.Equal(dst, []float32{9, 5}) {
		t.Error(dst, err)
	}
	if err := f.Row([][]byte{[]byte("1"), nil}, dst); err == nil || !strings.Contains(err.Error(), `column "b": the value is missing`) {
		t.Error(err)
	}
}

// A long word is known by its hash: two that begin alike differ.
func TestLongWords(t *testing.T) {
	long := strings.Repeat("ü", 1000)
	rows := column(40, func(i int) string { return long + string(rune('a'+i%2)) })
	_, f, _, err := found(t, rows, Options{})
	if err != nil || len(f.Columns[0].Values) != 2 || len(f.Columns[0].Values[0]) > longest || !utf8.ValidString(f.Columns[0].Values[0]) {
		t.Fatal(err)
	}
	a, _ := f.Cell(0, []byte(long+"a"))
	b, _ := f.Cell(0, []byte(long+"b"))
	c, _ := f.Cell(0, []byte(long+"c"))
	if a == b || c != 2 {
		t.Error(a, b, c)
	}
}

// Resolved options find the same Fitted again.
func TestResolved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := []string{"", "1", "2.5", "-3", "yes", "no", "red", "blue", "2024-01-01", "2023-05-06 07:00", "NA", "one two three"}
		rows := make([]string, rapid.IntRange(1, 50).Draw(t, "rows"))
		some := [3][]string{}
		for j := range some {
			some[j] = rapid.SliceOfN(rapid.SampledFrom(words), 1, 4).Draw(t, "words")
		}
		for i := range rows {
			var fields []string
			for j := range some {
				fields = append(fields, rapid.SampledFrom(some[j]).Draw(t, "field"))
			}
			rows[i] = strings.Join(fields, ",")
		}
		f, fitted, _, err := foundOrNot(rows, Options{})
		if err != nil {
			return
		}
		options, err := f.Resolved(fitted)
		if err != nil {
			t.Fatal(err)
		}
		_, again, _, err := foundOrNot(rows, Options{Columns: options})
		if err != nil {
			t.Fatalf("%v: %v", options, err)
		}
		a, _ := fitted.Text()
		b, _ := again.Text()
		if a != b {
			t.Fatalf("%s\n%s by %v", a, b, options)
		}
	})
}

func foundOrNot(rows []string, o Options) (*Finder, *Fitted, []Description, error) {
	return found(&testing.T{}, rows, o)
}

// The table fits 80 characters, and names no more columns than asked for.
func TestTable(t *testing.T) {
	list := []Description{
		{Name: strings.Repeat("customer", 9), Kind: Identifier, Different: -1, Rows: 123456},
		{Name: "age", Kind: Number, Different: 123456, Missing: 12345, Rows: 123456, Range: "-1.23457e+30 to 1.23457e+30", Features: 2},
		{Name: "plan", Kind: Category, Different: 3, Range: "gold, silver, …", Features: 3},
		{Name: "k", Kind: Category, Label: true, Different: 2, Range: "a, b"},
	}
	for line := range strings.Lines(Table(list, 0, 79)) {
		if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 79 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if got := Table(list, 2, 79); strings.Contains(got, "age") || !strings.HasSuffix(got, "and 2 more columns\n") {
		t.Error(got)
	}
}

// FuzzFinder: no table makes finding panic. What is found turns each of its rows into finite
// features, 0 or 1 but for quantities, and is the same after a round trip through JSON.
func FuzzFinder(f *testing.F) {
	f.Add("1,red,2024-01-01\n2,,2024-02-01 10:00\n?,blue,NA", 3, "category")
	f.Add("a,b\na,c", 1, "")
	f.Add("01/02/2024\n13/02/2024", 1, "date")
	f.Add("yes,1e39\nno,inf", 2, "boolean")
	f.Fuzz(func(t *testing.T, text string, top int, kind string) {
		rows := strings.Split(text, "\n")
		width := strings.Count(rows[0], ",")
		rows = slices.DeleteFunc(rows, func(row string) bool { return strings.Count(row, ",") != width })
		if width > 20 || len(rows) > 200 {
			return
		}
		_, fitted, list, err := found(t, rows, Options{Columns: []Option{{Name: "a", Kind: Kind(kind)}, {Name: All, Top: top}}})
		if err != nil {
			return
		}
		Table(list, 5, 79)
		b, err := json.Marshal(fitted)
		if err != nil {
			t.Fatal(err)
		}
		var back Fitted
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		if len(back.Names()) != back.Features() || len(back.Scaled()) != back.Features() || len(back.Expects()) != len(back.Columns) {
			t.Fatalf("%d names, %d features", len(back.Names()), back.Features())
		}
	})
}

// FuzzFitted: no JSON makes a Fitted that panics.
func FuzzFitted(f *testing.F) {
	f.Add(`{"Version":1,"Columns":[{"Name":"a","Kind":"number","Optional":true,"Indicator":true,"Fill":2},{"Name":"b","Kind":"category","Values":["x","y"],"Other":true}]}`, "x")
	f.Add(`{"Version":1,"Columns":[{"Name":"a","Kind":"date","Order":"dmy","Newest":7,"Fill":-1e9},{"Name":"b","Kind":"boolean","Fill":1,"Optional":true}]}`, "1.2.2024")
	f.Add(`{"Version":2}`, "")
	f.Fuzz(func(t *testing.T, text, field string) {
		var x Fitted
		if json.Unmarshal([]byte(text), &x) != nil {
			return
		}
		if x.Features() > 1<<16 {
			return
		}
		dst := make([]float32, x.Features())
		fields := make([][]byte, len(x.Columns))
		for i := range fields {
			fields[i] = []byte(field)
		}
		if x.Row(fields, dst) == nil {
			for i, v := range dst {
				if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
					t.Fatalf("%s is %v", x.Names()[i], v)
				}
			}
		}
	})
}

// A description with a later version, or one that cannot be, is refused.
func TestRefusedFitted(t *testing.T) {
	for text, says := range map[string]string{
		`{"Version":2}`: "version 2, and this program reads version 1",
		`{"Version":1,"Columns":[{"Name":"a","Kind":"text"}]}`:                             `is of kind "text"`,
		`{"Version":1,"Columns":[{"Name":"a","Kind":"number"},{"Name":"a"}]}`:              "is there twice",
		`{"Version":1,"Columns":[{"Name":"a","Kind":"category"}]}`:                         "is a category of 0 values",
		`{"Version":1,"Columns":[{"Name":"a","Kind":"category","Values":["x","x"]}]}`:      "is a category of 2 values",
		`{"Version":1,"Columns":[{"Name":"a","Kind":"date"}]}`:                             "is a date in the order",
		`{"Version":1,"Columns":[{"Name":"a","Kind":"number","Fill":1e300}]}`:              "fill out of range",
		`{"Version":1,"Columns":[{"Name":"a","Kind":"date","Order":"ymd","Fill":1e300}]}`:  "fill out of range",
		`{"Version":1,"Columns":[{"Name":"a","Kind":"boolean","Optional":true,"Fill":7}]}`: "neither 0 nor 1",
	} {
		var f Fitted
		if err := json.Unmarshal([]byte(text), &f); !errors.Is(err, ErrFitted) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// A boolean or a number in Go is the word of the category that has its value. A text is not.
func TestSpelt(t *testing.T) {
	rows := column(100, func(i int) string {
		return []string{"True", "False", "Unknown"}[i%3] + "," + []string{"1.0", "2.0", "2.50", "XL", "S"}[i%5] + "," + []string{"yes", "no", "maybe"}[i%3]
	})
	_, fitted, _, err := found(t, rows, Options{})
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]any{"a": "True", "b": "1.0", "c": "yes"}
	plain := map[string]any{"a": true, "b": 1.0, "c": true}
	want, got := make([]float32, fitted.Features()), make([]float32, fitted.Features())
	for _, b := range []any{1.0, 1, float32(1), json.Number("1e0"), "1.0"} {
		plain["b"] = b
		if err := errors.Join(fitted.RowOf(words, want), fitted.RowOf(plain, got)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%T: %v, want %v (%v)", b, got, want, err)
		}
	}
	plain["a"], plain["b"], plain["c"] = "true", "1", "YES"
	if err := fitted.RowOf(plain, got); err != nil || slices.Contains(got, 1) {
		t.Errorf("texts: %v %v", got, err)
	}
}

// Rows that have lost their values since the kinds were found are refused.
func TestMeasuresOtherRows(t *testing.T) {
	for _, word := range []string{"1", "2024-05-06"} {
		f, fitted, _, err := found(t, column(40, func(int) string { return word }), Options{Columns: []Option{{Name: "a", Missing: FillMedian}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Measure(fitted, 40, 0, func(yield func([]int32)) {
			for range 40 {
				yield([]int32{fitted.Columns[0].missing()})
			}
		})
		if !errors.Is(err, ErrOther) {
			t.Error(err)
		}
	}
}

// A name in a row that is near to that of a column without a value is refused. Others do not
// count.
func TestMisspelt(t *testing.T) {
	for _, x := range []struct{ name, other, want string }{
		{"Spend", "spend", "spend"}, {"first order", "first_order", "first_order"}, {"spnd", "spend", "spend"}, {"custmer_id", "customer_id", "customer_id"},
		{"q1", "q2", ""}, {"col_1", "col_2", ""}, {"col_1", "col_11", ""}, {"plan_a", "plan_b", ""}, {"age", "ago", ""}, {"size", "pize", "pize"}, {"id", "age", ""}, {"-", "_", ""},
	} {
		if got := Near(x.name, []string{"else", x.other}); got != x.want {
			t.Errorf("%s and %s: %q", x.name, x.other, got)
		}
	}
	_, f, _, err := found(t, column(40, func(i int) string { return fmt.Sprintf("%d,%d", i, i) }), Options{Columns: []Option{{Name: All, Missing: FillMedian}}})
	if err != nil {
		t.Fatal(err)
	}
	f.Columns[0].Name, f.Columns[1].Name = "spend", "visits"
	dst := make([]float32, f.Features())
	err = f.RowOf(map[string]any{"Spend": 7, "visits": 2, "extra": 1}, dst)
	if want := `"Spend" is no column, and the row lacks "spend": did you mean that? A value of another name does not count`; err == nil || err.Error() != want {
		t.Error(err)
	}
	for _, row := range []map[string]any{{"extra": 1}, {"spent": 1}, {"spend": 1, "Spend": 7}, {"spend": nil, "Spend": 7, "visits": 1}} {
		if err := f.RowOf(row, dst); err != nil {
			t.Errorf("%v: %v", row, err)
		}
	}
}

// A column that looks like numbers or dates and is not read so has a remark that says what
// would help.
func TestHints(t *testing.T) {
	for name, x := range map[string]struct {
		word func(i int) string
		want string
	}{
		"currency":  {func(i int) string { return fmt.Sprintf("$%d.%02d", i%20, i%7) }, "an amount with its currency"},
		"after":     {func(i int) string { return fmt.Sprintf("%d €", i) }, "an amount with its currency"},
		"percent":   {func(i int) string { return fmt.Sprintf("%d%%", i) }, "a percentage: write the number alone"},
		"two years": {func(i int) string { return fmt.Sprintf("%d/%d/24", i%28+1, i%12+1) }, "a date with two digits of its year"},
		"mixed": {func(i int) string {
			return []string{fmt.Sprintf("%d/02/2024", 13+i%12), fmt.Sprintf("02/%d/2024", 13+i%12)}[i%2]
		}, "days and months in different orders"},
		"points":   {func(i int) string { return fmt.Sprintf("%02d.%02d.24", i%28+1, i%12+1) }, "a date with two digits of its year"},
		"versions": {func(i int) string { return fmt.Sprintf("1.2.%d", 10+i%20) }, ""},
		"codes":    {func(i int) string { return fmt.Sprintf("20-41-%d", 70+i%9) }, ""},
		"packed":   {func(i int) string { return fmt.Sprint(20211101 + i%30) }, "a day without dashes"},
		"words":    {func(i int) string { return fmt.Sprint("w", i%5) }, ""},
		"padded":   {func(i int) string { return fmt.Sprintf("%06d", 3*i) }, "its numbers begin with zeros, as codes do"},
		"phones":   {func(i int) string { return fmt.Sprint(4915550000000 + 12345678*i) }, "is it a code? data.columns: {a: ignore}"},
		"amounts":  {func(i int) string { return fmt.Sprint(1_000_000_000 + i%4*1_000_000) }, ""},
		"zeros":    {func(i int) string { return fmt.Sprint(0.5 * float64(i%7)) }, ""},
		"numbers":  {func(i int) string { return fmt.Sprint(19999999 + i%5) }, ""},
	} {
		_, _, list, err := found(t, column(100, x.word), Options{})
		if err != nil || x.want == "" && list[0].Remark != "" || !strings.Contains(list[0].Remark, x.want) {
			t.Errorf("%s: %q %v", name, list[0].Remark, err)
		}
	}
}

// Hints about commas tell amounts from lists and scores of single digits.
func TestHintsOfCommas(t *testing.T) {
	for word, want := range map[string]string{
		"%d,5%[1]d":   "a number with a comma for its point",
		"%d,00%[1]d":  "a number with commas between thousands",
		"0,00%d":      "a number with a comma for its point",
		"1.00%d,02":   "a number with a comma for its point",
		"%d,1":        "",
		"1.00%d.02,1": "",
	} {
		p := profile{values: 9}
		for i := range 9 {
			p.counts = append(p.counts, count{fmt.Sprintf(word, i+1), 1})
		}
		if got := p.hint(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

// TestSomeCommas: amounts with commas between thousands are named where most are too small to have one, in a column
// of words and where one is refused.
func TestSomeCommas(t *testing.T) {
	p := profile{values: 10, numbers: 6, counts: []count{{"1,189.90", 2}, {"2,050", 2}}}
	if got := p.hint(); !strings.Contains(got, "commas between thousands") {
		t.Errorf("4 of 10 have a comma: %q", got)
	}
	p.counts[1].word = "unknown"
	if got := p.hint(); got != "" {
		t.Errorf("2 of 10 are words: %q", got)
	}
	dates := profile{values: 10, numbers: 6, counts: []count{{"1/2/24", 4}}}
	if got := dates.hint(); got != "" {
		t.Errorf("numbers and dates: %q", got)
	}
	f := &Fitted{Columns: []Column{{Name: "spend", Kind: Number}}}
	if _, err := f.CellOfFile(0, []byte("1,189.90")); err == nil || !strings.Contains(err.Error(), `"1,189.90" is not a number (it looks like a number with commas between thousands: leave them out)`) {
		t.Error(err)
	}
}

// The error about a value in a row that is sent says nothing of files and training.
func TestRowErrorsSpeakOfTheRow(t *testing.T) {
	for _, optional := range []bool{false, true} {
		f := &Fitted{Columns: []Column{{Name: "age", Kind: Number, Optional: optional}}}
		want := `column "age": "old" is not a number: send a finite number`
		if optional {
			want += ", or null if it is missing"
		}
		if err := f.RowOf(map[string]any{"age": "old"}, make([]float32, f.Features())); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := f.Cell(0, []byte("old")); err == nil || !strings.Contains(err.Error(), wordAdvice) {
			t.Errorf("in a file to train on: %v", err)
		}
		if _, err := f.CellOfFile(0, []byte("old")); err == nil || strings.Contains(err.Error(), "data.") || !strings.Contains(err.Error(), "write a finite number") {
			t.Errorf("in a file for a model: %v", err)
		}
	}
}

// Ranges fit a line of a table with their exponents, and shares with their percentages.
func TestRangesFit(t *testing.T) {
	for want, got := range map[string]string{
		"0.125 to 123,457":      Range(0.125, 123456.78),
		"-10,000 to 16,777,215": Range(-1e4, 1<<24-1),
		"1,234,567 to 1.25e+07": Range(1234567, 12500000),
		"1987 to 9999.5":        Range(1987, 9999.5),
		"0.5 to 1.67772e+07":    Range(0.5, 1<<24),
		"-1.23e+10 to 7.65e+12": Range(-1.2345678e10, 7.6543219e12),
		"-1.2e-10 to -1.2e-30":  Range(-1.2345678e-10, -1.2345678e-30),
		"no 75%, yes 25%":       Shares([]string{"no", "yes"}, []int{3, 1}),
		"b 50%, a 25%, c 25%":   Shares([]string{"a", "b", "c"}, []int{1, 2, 1}),
		"virginica 67%, …":      Shares([]string{"setosa", "virginica"}, []int{1, 2}),
	} {
		if got != want || utf8.RuneCountInString(got) > rangeWidth {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The texts of missing values are those for which IsMissing holds, in upper and lower case.
func TestMissingTexts(t *testing.T) {
	texts := MissingTexts(nil)
	for _, text := range texts {
		if !IsMissing(nil, []byte(text)) {
			t.Errorf("%q is not missing", text)
		}
	}
	for _, text := range []string{"", "NA", "n/a", "Null", "?", "NaN", "nULL"} {
		if !slices.Contains(texts, text) {
			t.Errorf("%q is not among them", text)
		}
	}
	if n := 1 + 4 + 4 + 16 + 1 + 8; len(texts) != n {
		t.Errorf("%d texts, expected %d", len(texts), n)
	}
	if given := MissingTexts([]string{"-"}); !slices.Equal(given, []string{"", "-"}) {
		t.Errorf("%q", given)
	}
	if numbers := MissingNumbers([]string{"-", "-999", "", "1e99", "0.5"}); !slices.Equal(numbers, []float32{-999, 0.5}) {
		t.Errorf("%v", numbers)
	}
}

// A date with the year in front has one meaning, so a model takes it whatever the order of the dates
// that it was trained on: a time in Go, a date of Parquet, and a text.
func TestISODatesOfAnyOrder(t *testing.T) {
	for order, native := range map[string]string{YMD: "2018-12-08", DMY: "08/12/2018", MDY: "12/08/2018"} {
		f := &Fitted{Columns: []Column{{Name: "day", Kind: Date, Order: order}}}
		want := make([]float32, f.Features())
		if err := f.RowOf(map[string]any{"day": native}, want); err != nil {
			t.Fatal(err)
		}
		for _, value := range []any{"2018-12-08", "2018-12-08T00:30:00Z", time.Date(2018, 12, 8, 0, 0, 0, 0, time.UTC)} {
			got := make([]float32, len(want))
			if err := f.RowOf(map[string]any{"day": value}, got); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v in the order %s: %v, %v, want %v", value, order, got, err, want)
			}
		}
		err := f.RowOf(map[string]any{"day": "soon"}, want)
		if err == nil || !strings.HasSuffix(err.Error(), "send a date such as 2024-02-29") {
			t.Errorf("a word in the order %s: %v", order, err)
		}
	}
}
