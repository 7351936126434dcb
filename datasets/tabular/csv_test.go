package tabular

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"github.com/berth-ml/berth/datasets/fault"
)

// readRows reads all rows of x.csv.
func readRows(r io.Reader) error {
	rows, err := newCSVRows(r, "x.csv", 0, 0)
	for row := (Row{}); err == nil; {
		err = rows.next(&row)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// Quotes that do not fit are refused where they are; one that is never closed,
// where it opens.
func TestMisquoted(t *testing.T) {
	for text, says := range map[string]string{
		"a,b\n1,\"x\n2,y\n3,z\n": "x.csv:2:3: the quote that opens here is never closed",
		"a,\"\"\"b\n1,2\n":       "x.csv:1:3: the quote that opens here is never closed",
		"a,b\n1,x\"y\n":          "x.csv:2:4: a quote is inside a field",
		"a,b\n1,\"x\"y\n":        "x.csv:2:5: text follows the quote",
	} {
		err := readRows(strings.NewReader(text))
		if !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), says) {
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
		err := readRows(io.MultiReader(strings.NewReader(start), io.LimitReader(repeated("7"), lots)))
		if !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", start, err)
		}
	}
	err := readRows(io.MultiReader(strings.NewReader("a,b\n1,\""), io.LimitReader(repeated("7\n"), lots)))
	if want := "x.csv:2:3: the quote that opens here is not closed within 32 MiB"; !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), want) {
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
		err := readRows(strings.NewReader(text))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), says) {
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
		err := readRows(strings.NewReader(text))
		if !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), "x.csv is UTF-16 or no text: save it as UTF-8") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A workbook is no text, and saving it as UTF-8 would not help.
func TestWorkbook(t *testing.T) {
	for _, text := range []string{"PK\x03\x04\x14\x00", "\xd0\xcf\x11\xe0\xa1\xb1"} {
		err := readRows(strings.NewReader(text))
		if !errors.Is(err, fault.ErrFormat) || !strings.HasSuffix(err.Error(), "x.csv is a workbook of a spreadsheet, or an archive: save its table as CSV") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A first line that names the delimiter is no row. Lines that are skipped are not looked at.
func TestSeparatorLine(t *testing.T) {
	for _, c := range []struct {
		text  string
		comma rune
		skip  int
		want  string // the fields of the first row, or the error
	}{
		{"sep=;\na;b\n", ';', 0, "2: a b"},
		{"\ufeff\"sep=;\"\r\na;b\r\n", ';', 0, "2: a b"},
		{"SEP=\t\na\tb\n", '\t', 0, "2: a b"},
		{"sep=;\na;b\n", ',', 0, "malformed data: x.csv:1: this line says that \";\" separates columns: set data.delimiter to that"},
		{"sep=;\na;b\n", ';', 1, "2: a b"},
		{"sep=;\nsep=;\n", ';', 1, "2: sep= "},
		{"sep=ab;b\n", ';', 0, "1: sep=ab b"},
		{"sep=;", ';', 0, "EOF"},
	} {
		r, err := newCSVRows(strings.NewReader(c.text), "x.csv", c.comma, c.skip)
		var row Row
		if err == nil {
			err = r.next(&row)
		}
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprintf("%d: %s", row.at[0].line, bytes.Join(row.Fields, []byte(" ")))
		}
		if got != c.want {
			t.Errorf("%q, skip %d: %s, want %s", c.text, c.skip, got, c.want)
		}
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
	got, err := newCSVRows(strings.NewReader(text), "x", comma, 0)
	line, _, _ := strings.Cut(strings.TrimPrefix(text, "\ufeff"), "\n")
	if err != nil || comma == 0 || unicode.IsSpace(comma) || separatorIn(line) != "" { // encoding/csv loses empty fields between spaces, and takes sep=; as a row
		return
	}
	want := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	want.Comma, want.TrimLeadingSpace = comma, true
	for {
		var row Row
		err := got.next(&row)
		rec, wantErr := want.Read()
		if (err == nil) != (wantErr == nil) || (err == io.EOF) != (wantErr == io.EOF) {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if fmt.Sprintf("%q", row.Fields) != fmt.Sprintf("%q", rec) {
			t.Fatalf("%q, want %q", row.Fields, rec)
		}
		for i, at := range row.at {
			if line, column := want.FieldPos(i); at != (place{line, column}) {
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
		rows, err := newCSVRows(strings.NewReader(c.text), "x", c.comma, 0)
		if err != nil {
			t.Fatal(err)
		}
		var row Row
		if err := rows.next(&row); err != nil || fmt.Sprintf("%q", row.Fields) != c.want {
			t.Errorf("%q by %q: %q, %v, want %s", c.text, c.comma, row.Fields, err, c.want)
		}
		if err := rows.next(&row); err != io.EOF {
			t.Errorf("%q by %q: a second row %q, %v", c.text, c.comma, row.Fields, err)
		}
	}
}

// A file whose lines end with a carriage return alone is refused; one row may end so.
func TestCarriageReturns(t *testing.T) {
	if err := readRows(strings.NewReader("a,b\r1,x\r2,y\r")); !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), "x.csv ends its lines with a carriage return alone") {
		t.Error(err)
	}
	if err := readRows(strings.NewReader("1,x\r")); err != nil {
		t.Error(err)
	}
}
