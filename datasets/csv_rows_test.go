package datasets

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode"
)

// Quotes that do not fit are refused where they are; one that is never closed,
// where it opens.
func TestMisquoted(t *testing.T) {
	for text, says := range map[string]string{
		"a,b\n1,\"x\n2,y\n3,z\n": "x.csv:2:3: the quote that opens here is never closed",
		"a,\"\"\"b\n1,2\n":       "x.csv:1:3: the quote that opens here is never closed",
		"a,b\n1,x\"y\n":          "x.csv:2:4: a quote is inside a field",
		"a,b\n1,\"x\"y\n":        "x.csv:2:5: text follows the quote",
	} {
		_, err := parseCSV(strings.NewReader(text), csvInput{path: "x.csv"})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A row is held whole, so a file without line ends is refused early.
func TestLongRow(t *testing.T) {
	const lots = 1 << 40 // bytes: nobody reads so far
	for start, says := range map[string]string{
		"a,b\n1,":   "x.csv:2: the line has more than 32 MiB: is it the right file?",
		"a,b\n1,\"": "x.csv:2: the line has more than 32 MiB",
	} {
		_, err := parseCSV(io.MultiReader(strings.NewReader(start), io.LimitReader(repeated("7"), lots)), csvInput{path: "x.csv"})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", start, err)
		}
	}
	_, err := parseCSV(io.MultiReader(strings.NewReader("a,b\n1,\""), io.LimitReader(repeated("7\n"), lots)), csvInput{path: "x.csv"})
	if want := "x.csv:2:3: the quote that opens here is not closed within 32 MiB"; !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// A row that is much wider than the first takes no memory for its fields, and a first
// row of very many columns is refused.
func TestWideRow(t *testing.T) {
	wide := strings.Repeat("1,", 2_000_000) + "1\n"
	for text, says := range map[string]string{
		"a,b\n" + wide: "x.csv:2: 2000001 columns where the first row has 2",
		wide + "1,2\n": "x.csv:1: the row has more than 1048576 columns: is it the right file?",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parseCSV(strings.NewReader(text), csvInput{path: "x.csv"})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		if took, most := after.TotalAlloc-before.TotalAlloc, uint64(10*len(text)); text[0] == 'a' && took > most {
			t.Errorf("%q: %d bytes are taken in all, want at most %d", says, took, most)
		}
	}
}

// repeated is a text that begins anew whenever it ends.
type repeated string

func (r repeated) Read(b []byte) (n int, err error) {
	for n < len(b) {
		n += copy(b[n:], r)
	}
	return n, nil
}

// A file that is not UTF-8 text is refused as such.
func TestCSVEncoding(t *testing.T) {
	for _, text := range []string{"\xff\xfea\x00,\x00k\x00\n\x00", "\xfe\xff\x00a\x00,\x00k\x00\n", "1\x00,\x00x\x00\n\x00"} {
		_, err := parseCSV(strings.NewReader(text), csvInput{path: "x.csv"})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "x.csv is UTF-16 or no text: save it as UTF-8") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What other programs save is refused where it would be misread.
func TestForeignText(t *testing.T) {
	for text, says := range map[string]string{
		"a,b\r1,x\r2,y\r":       "x.csv ends its lines with a carriage return alone",
		"a,b\n1,caf\xe9\n2,y\n": `x.csv:2:3 (column "b"): "caf\xe9" is not UTF-8: save the file as UTF-8`,
		"\xe4,b\n1,x\n2,y\n":    `x.csv: the name of column 0 in the header, "\xe4", is not UTF-8`,
	} {
		_, err := parseCSV(strings.NewReader(text), csvInput{path: "x.csv"})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := newCSVRows(strings.NewReader("1,x\r"), "x.csv", 0); err != nil {
		t.Errorf("one row that ends with a carriage return: %v", err)
	}
}

// FuzzCSVRows: rows, positions and refusals are those of encoding/csv.
func FuzzCSVRows(f *testing.F) {
	for _, text := range []string{
		"a,b\r\n\r\n 1 ,\"x\"\"y\n\r\n z\" \n", "\"a\nb\",c\n1,2", "1,\"2\n", "1,2\"\n", "\"1\"2,3\n", "\n\n  \n,,\n", "a\r", "é,\"é\",\xff\n", "\"\",\n",
	} {
		f.Add(text, ',')
		f.Add(strings.ReplaceAll(text, ",", "→"), '→')
	}
	f.Fuzz(func(t *testing.T, text string, comma rune) { sameRows(t, text, comma) })
}

// Rows and fields may be longer than the reader's buffer.
func TestLongRows(t *testing.T) {
	sameRows(t, strings.Repeat("x", 1<<17)+",\""+strings.Repeat("y\n", 1<<16)+"\"\n1,2\n", ',')
}

// sameRows compares rows with those of encoding/csv.
func sameRows(t *testing.T, text string, comma rune) {
	got, err := newCSVRows(strings.NewReader(text), "x", comma)
	if err != nil || comma == 0 || unicode.IsSpace(comma) { // encoding/csv loses empty fields between spaces
		return
	}
	want := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	want.Comma, want.TrimLeadingSpace = comma, true
	for {
		var row csvRow
		err := got.next(&row)
		rec, wantErr := want.Read()
		if (err == nil) != (wantErr == nil) || (err == io.EOF) != (wantErr == io.EOF) {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if fmt.Sprintf("%q", row.fields) != fmt.Sprintf("%q", rec) {
			t.Fatalf("%q, want %q", row.fields, rec)
		}
		for i, at := range row.at {
			if line, column := want.FieldPos(i); at != (csvPos{line, column}) {
				t.Fatalf("field %d is at %v, want %d:%d", i, at, line, column)
			}
		}
	}
}

// A delimiter that is a space divides fields, also empty ones; of spaces proper,
// several count as one.
func TestSpacesAsDelimiter(t *testing.T) {
	for _, c := range []struct {
		comma rune
		text  string
		want  string
	}{
		{'\t', "1\t\t3\n", `["1" "" "3"]`},
		{'\t', "\t2\t\n", `["" "2" ""]`},
		{'\t', "\t\t\n", `["" "" ""]`},
		{'\t', " 1\t  2 \t3", `["1" "2 " "3"]`},
		{'\t', "\"a\tb\"\t\"\"\t \"c\nd\"\n", `["a\tb" "" "c\nd"]`},
		{'\t', "\"a\"\t\t\n", `["a" "" ""]`},
		{'\u00a0', "1\u00a0\u00a03\n", `["1" "" "3"]`},
		{' ', "1 2 3\n", `["1" "2" "3"]`},
		{' ', "  1   2  3  \n", `["1" "2" "3"]`},
		{' ', "\n   \n\"a b\"  \" c \" \n", `["a b" " c "]`},
		{',', "1,,\n", `["1" "" ""]`},
		{',', "\t1,\t,3\n", `["1" "" "3"]`},
	} {
		rows, err := newCSVRows(strings.NewReader(c.text), "x", c.comma)
		if err != nil {
			t.Fatal(err)
		}
		var row csvRow
		if err := rows.next(&row); err != nil || fmt.Sprintf("%q", row.fields) != c.want {
			t.Errorf("%q by %q: %q, %v, want %s", c.text, c.comma, row.fields, err, c.want)
		}
		if err := rows.next(&row); err != io.EOF {
			t.Errorf("%q by %q: a second row %q, %v", c.text, c.comma, row.fields, err)
		}
	}
}

// An empty field of a file divided by tabs is said where it is.
func TestEmptyFieldBetweenTabs(t *testing.T) {
	_, err := parseCSV(strings.NewReader("a\tb\tk\n1\t2\tx\n3\t\ty\n"), csvInput{path: "x.csv", opt: CSVOptions{Comma: '\t'}})
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
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "take 7.8 KiB of memory, and 6.8 KiB is free") {
		t.Error(err)
	}
	if _, err := OpenInputs(t.Context(), s, &ds.Info, s.Path); !errors.Is(err, ErrMemory) {
		t.Errorf("inputs: %v", err)
	}
}
