package tabular

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/berth-ml/berth/datasets/fault"
)

// packedRows writes rows as a file, with several in a row group.
func packedRows[T any](t testing.TB, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	_, err := w.Write(rows)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// parquetPath is a file of some contents.
func parquetPath(t testing.TB, contents []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(path, contents, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// customer is a row with a column for most types.
type customer struct {
	Name    string           `parquet:"name"`
	Plan    *string          `parquet:"plan,optional,dict"`
	Age     int32            `parquet:"age"`
	Big     uint64           `parquet:"big"`
	Score   float64          `parquet:"score"`
	Part    *float32         `parquet:"part,optional"`
	Yes     bool             `parquet:"yes"`
	Day     int32            `parquet:"day,date"`
	At      time.Time        `parquet:"at,timestamp(millisecond)"`
	Price   int64            `parquet:"price,decimal(2:10)"`
	ID      [16]byte         `parquet:"id,uuid"`
	Old     deprecated.Int96 `parquet:"old"`
	Seconds int32            `parquet:"seconds,time(millisecond)"`
}

func customers(n int) []customer {
	gold, part := "gold", float32(0.1)
	rows := make([]customer, n)
	for i := range rows {
		rows[i] = customer{Name: fmt.Sprintf("row %d", i), Age: int32(i) - 1, Big: 1<<63 + uint64(i), Score: 0.1 * float64(i), Yes: i%2 == 1, Day: 19782,
			At: time.UnixMilli(1709210096250).UTC(), Price: int64(-5 + i), ID: [16]byte{0xab, 15: 1}, Old: deprecated.Int96{0, 0, 2440589}, Seconds: 3600_000}
		if i%3 == 0 {
			rows[i].Plan, rows[i].Part = &gold, &part
		}
	}
	return rows
}

// Values are the texts that a table of CSV would have.
func TestParquet(t *testing.T) {
	const want = `name|plan|age|big|score|part|yes|day|at|price|id|old|seconds
row 0|gold|-1|9223372036854775808|0|0.1|false|2024-02-29|2024-02-29 12:34:56.25|-0.05|ab000000-0000-0000-0000-000000000001|1970-01-02 00:00:00|01:00:00
row 1|-|0|9223372036854775809|0.1|-|true|2024-02-29|2024-02-29 12:34:56.25|-0.04|ab000000-0000-0000-0000-000000000001|1970-01-02 00:00:00|01:00:00
`
	got, err := rowsOf(t.Context(), parquetPath(t, packedRows(t, customers(2))), Options{}, nil)
	if got != want || err != nil {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// Booleans and numbers are told from texts, days and times; a missing value is neither.
func TestParquetBooleansAndNumbers(t *testing.T) {
	table, err := Open(t.Context(), parquetPath(t, packedRows(t, customers(2))), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	err = table.Each(t.Context(), nil, func(row *Row) error {
		for i, is := range row.Values {
			if is {
				values = append(values, table.Names[i])
			}
		}
		return nil
	})
	if got := strings.Join(values, " "); err != nil || got != "age big score part yes price age big score yes price" {
		t.Errorf("%s, %v", got, err)
	}
}

// However a file is packed and divided, its rows are the same.
func TestParquetPacked(t *testing.T) {
	rows := customers(3000)
	want, err := rowsOf(t.Context(), parquetPath(t, packedRows(t, rows)), Options{}, nil)
	if err != nil || strings.Count(want, "\n") != len(rows)+1 {
		t.Fatal(err)
	}
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Brotli, &parquet.Zstd} {
		for version := 1; version <= 2; version++ {
			file := packedRows(t, rows, parquet.Compression(codec), parquet.DataPageVersion(version), parquet.MaxRowsPerRowGroup(1100), parquet.PageBufferSize(4<<10))
			if got, err := rowsOf(t.Context(), parquetPath(t, file), Options{}, nil); got != want || err != nil {
				t.Errorf("%v, pages of version %d: %d bytes, %v, want %d", codec, version, len(got), err, len(want))
			}
		}
	}
}

// Files have the same columns, in any order. Columns that are not asked for are not read.
func TestParquetFiles(t *testing.T) {
	type ab struct {
		A int64  `parquet:"a"`
		B string `parquet:"b"`
	}
	type ba struct {
		B string `parquet:"b"`
		A int64  `parquet:"a"`
	}
	dir := folder(t, map[string]string{"x-1.parquet": string(packedRows(t, []ab{{1, "x"}})), "x-2.parquet": string(packedRows(t, []ba{{"y", 2}}))})
	for want, used := range map[string][]bool{"a|b\n1|x\n2|y\n": nil, "a|b\n1|-\n2|-\n": {true, false}, "a|b\n-|-\n-|-\n": {false, false}} {
		if got, err := rowsOf(t.Context(), filepath.Join(dir, "x-*"), Options{}, used); err != nil || got != want {
			t.Errorf("%v: %q, %v, want %q", used, got, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "x-3.parquet"), packedRows(t, []struct{ C int }{{1}}), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "x-*"), Options{}); !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), `x-3.parquet has the column "C", and `) {
		t.Error(err)
	}
}

// A column of lists is refused by its name where it is read, and not elsewhere.
func TestNestedParquet(t *testing.T) {
	type row struct {
		A    int64    `parquet:"a"`
		Tags []string `parquet:"tags"`
		To   struct{ X int64 }
		Raw  [3]byte `parquet:"raw"`
	}
	path := parquetPath(t, packedRows(t, []row{{A: 1, Tags: []string{"x", "y"}}, {A: 2}}))
	if got, err := rowsOf(t.Context(), path, Options{}, []bool{true, false, false, false}); got != "a|tags|To|raw\n1|-|-|-\n2|-|-|-\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for i, says := range []string{"", `x.parquet: column "tags" holds lists or objects`, `x.parquet: column "To" holds lists or objects`, `x.parquet: column "raw" holds`} {
		used := make([]bool, 4)
		used[i] = true
		if _, err := rowsOf(t.Context(), path, Options{}, used); i > 0 && (!errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// A file that is cut short anywhere is refused.
func TestParquetCutShort(t *testing.T) {
	file := packedRows(t, customers(20), parquet.Compression(&parquet.Zstd))
	path := parquetPath(t, file)
	for n := len(file) - 1; n >= 0; n -= 3 {
		if err := os.Truncate(path, int64(n)); err != nil {
			t.Fatal(err)
		}
		if _, err := rowsOf(t.Context(), path, Options{}, nil); !errors.Is(err, fault.ErrFormat) {
			t.Fatalf("%d of %d bytes: %v", n, len(file), err)
		}
	}
}

// What has no rows, is packed in a way that is not read, or changes is refused as such.
func TestParquetRefusals(t *testing.T) {
	none := packedRows[customer](t, nil)
	if _, err := Open(t.Context(), parquetPath(t, none), Options{}); !errors.Is(err, fault.ErrTooFew) || !strings.Contains(err.Error(), "no rows") {
		t.Error(err)
	}
	one := parquetPath(t, packedRows(t, customers(1)))
	if got, err := rowsOf(t.Context(), one, Options{Skip: 1}, nil); err != nil || strings.Count(got, "\n") != 2 {
		t.Errorf("with lines to skip, of which it has none: %q, %v", got, err)
	}
	lz4 := parquetPath(t, packedRows(t, customers(1), parquet.Compression(&parquet.Lz4Raw)))
	if _, err := rowsOf(t.Context(), lz4, Options{}, nil); !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), "packed by LZ4_RAW, which is not read: pack it by snappy, gzip or zstd") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	table, err := Open(ctx, one, Options{})
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	cancel(why)
	if err := table.Each(ctx, nil, func(*Row) error { return nil }); !errors.Is(err, why) || errors.Is(err, fault.ErrFormat) {
		t.Error(err)
	}
	if err := os.WriteFile(one, packedRows(t, customers(2)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := table.Each(t.Context(), nil, func(*Row) error { return nil }); !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), "changed while it was read") {
		t.Error(err)
	}
}

// Row counts that the footer has wrong are refused: rows would be lost, or room made for 2^60.
func TestParquetCounts(t *testing.T) {
	path := parquetPath(t, packedRows(t, customers(20)))
	for name, damage := range map[string]func(m *format.FileMetaData){
		"a file of many":  func(m *format.FileMetaData) { m.NumRows = 1 << 60 },
		"a file of few":   func(m *format.FileMetaData) { m.NumRows = 3 },
		"a group of few":  func(m *format.FileMetaData) { m.NumRows, m.RowGroups[0].NumRows = 3, 3 },
		"a group of many": func(m *format.FileMetaData) { m.NumRows, m.RowGroups[0].NumRows = 30, 30 },
		"a negative one":  func(m *format.FileMetaData) { m.RowGroups[0].NumRows = -1 },
	} {
		table, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := table.packed[0]
		if err := p.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		damage(p.file.Metadata())
		if err := errors.Join(p.checkCounts(), p.in.file.Close()); err == nil || !strings.Contains(err.Error(), " rows, and ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A page that unpacks to much more than it takes is refused before it is unpacked.
func TestParquetBomb(t *testing.T) {
	type row struct {
		A string `parquet:"a"`
	}
	zeros := strings.Repeat("\x00", 30<<20)
	for _, codec := range []compress.Codec{&parquet.Gzip, &parquet.Brotli, &parquet.Zstd} {
		path := parquetPath(t, packedRows(t, []row{{zeros}}, parquet.Compression(codec), parquet.SkipPageStatistics("a"), parquet.SkipPageBounds("a")))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := rowsOf(t.Context(), path, Options{}, nil)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), "it unpacks to more than 64 times its size") {
			t.Errorf("%v: %v", codec, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(zeros)) {
			t.Errorf("%v: %d bytes of memory", codec, took)
		}
	}
}

// A page that would have more values than it says is refused, in whichever way they are written.
func TestParquetValues(t *testing.T) {
	long := append(binary.AppendUvarint(nil, 1<<25), 1) // a run of 16 million ones
	groups := binary.AppendUvarint(nil, 1<<10|1)        // 512 groups of values without bits
	deltas := binary.AppendUvarint([]byte{0x80, 1, 4}, 1<<30)
	with := func(b []byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...) }
	for name, c := range map[string]struct {
		page         pageValues
		levels, body []byte
	}{
		"levels of the first version":  {pageValues{encoding: format.Plain, optional: true}, nil, with(long)},
		"levels of the second version": {pageValues{encoding: format.Plain, optional: true, second: true}, long, nil},
		"a dictionary's numbers":       {pageValues{encoding: format.RLEDictionary}, nil, append([]byte{1}, long...)},
		"values without bits":          {pageValues{encoding: plainDictionary}, nil, append([]byte{0}, groups...)},
		"booleans":                     {pageValues{encoding: format.RLE}, nil, with(long)},
		"differences":                  {pageValues{encoding: format.DeltaBinaryPacked}, nil, deltas},
		"lengths":                      {pageValues{encoding: format.DeltaLengthByteArray}, nil, deltas},
	} {
		c.page.values = 10
		if err := c.page.check(c.levels, c.body); err == nil || !strings.Contains(err.Error(), "more values than the 10 that it says") {
			t.Errorf("%s: %v", name, err)
		}
		c.page.values = 1 << 30
		if err := c.page.check(c.levels, c.body); err != nil && err != io.ErrUnexpectedEOF {
			t.Errorf("%s, as said: %v", name, err)
		}
	}
	if err := (&pageValues{encoding: format.DeltaByteArray}).check(nil, nil); !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), "DELTA_BYTE_ARRAY, which is not read") {
		t.Error(err)
	}
}

// FuzzParquet: whatever a file holds, reading it ends within bounds, with rows or with an error.
func FuzzParquet(f *testing.F) {
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Brotli, &parquet.Zstd} {
		f.Add(packedRows(f, customers(7), parquet.Compression(codec)))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(t.TempDir(), "x.parquet")
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := rowsOf(t.Context(), path, Options{}, nil)
		if err != nil && !errors.Is(err, fault.ErrFormat) && !errors.Is(err, fault.ErrTooFew) {
			t.Error(err)
		}
	})
}
