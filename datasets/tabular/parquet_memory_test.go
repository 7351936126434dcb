package tabular

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/berth-ml/berth/datasets/fault"
)

// heap is the memory that is in use.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // the first two empty the pools
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// wide is a file with many columns of one type. value gives those of a row.
func wide(t *testing.T, columns, rows int, node parquet.Node, value func(row int) parquet.Value) *parquetFile {
	t.Helper()
	group := parquet.Group{}
	for i := range columns {
		group[fmt.Sprintf("c%05d", i)] = node
	}
	var b bytes.Buffer
	w := parquet.NewWriter(&b, parquet.NewSchema("x", group))
	row := make(parquet.Row, columns)
	var err error
	for r := range rows {
		v := value(r)
		for i := range row {
			row[i] = v.Level(0, v.DefinitionLevel(), i)
		}
		_, e := w.WriteRows([]parquet.Row{row})
		err = errors.Join(err, e)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	table, err := Open(t.Context(), parquetPath(t, b.Bytes()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return table.packed[0]
}

// A row group is charged what reading it takes: neither less, nor so much that usual files are
// refused.
func TestParquetMemory(t *testing.T) {
	number := func(row int) parquet.Value { return parquet.ValueOf(int64(row * 1e9)) }
	text := func(row int) parquet.Value { return parquet.ValueOf(fmt.Sprintf("the text %d", row)) }
	class := func(row int) parquet.Value { return parquet.ValueOf(fmt.Sprint(row % 7)) }
	for name, c := range map[string]struct {
		columns, rows int
		node          parquet.Node
		value         func(int) parquet.Value
	}{
		"few rows":         {400, 1, parquet.Int(64), number},
		"numbers":          {40, 20000, parquet.Int(64), number},
		"packed numbers":   {40, 20000, parquet.Compressed(parquet.Int(64), &parquet.Zstd), number},
		"differences":      {40, 20000, parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked), number},
		"texts":            {40, 9000, parquet.String(), text},
		"lengths":          {40, 9000, parquet.Encoded(parquet.String(), &parquet.DeltaLengthByteArray), text},
		"different texts":  {40, 9000, parquet.Encoded(parquet.String(), &parquet.RLEDictionary), text},
		"classes":          {40, 30000, parquet.Encoded(parquet.String(), &parquet.RLEDictionary), class},
		"optional classes": {40, 30000, parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary)), func(row int) parquet.Value { return class(row).Level(0, 1, 0) }},
	} {
		p := wide(t, c.columns, c.rows, c.node, c.value)
		before := heap()
		r, err := p.rows(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.next(new(Row)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		took, charged := heap()-before, int64(0)
		for _, room := range p.checked {
			charged += columnRoom + room.held
		}
		if charged < took*9/10 || charged > took*3/2 {
			t.Errorf("%s: %d bytes a column are charged, and %d are taken", name, charged/int64(c.columns), took/int64(c.columns))
		}
		if err := r.(*parquetRows).Close(); err != nil {
			t.Error(err)
		}
	}
}

// Columns whose pages take too much memory together are refused before they are read.
func TestParquetTooWide(t *testing.T) {
	p := wide(t, 2, 1, parquet.Int(64), func(int) parquet.Value { return parquet.ValueOf(int64(1)) })
	for c := range p.columns {
		p.checked[[2]int{0, c}] = pageRoom{held: mostPages / 2}
	}
	for _, used := range [][]int{{0}, {0, 1}} {
		err := p.checkGroup(0, used)
		if refused := errors.Is(err, fault.ErrFormat) && strings.Contains(err.Error(), "takes more than 1024 MiB in all: write smaller pages, or leave columns out with data.ignore"); refused != (len(used) == 2) {
			t.Errorf("%d columns: %v", len(used), err)
		}
	}
}

// A page of values of a fixed width is charged for them, whatever the size of the page.
func TestParquetWidth(t *testing.T) {
	x := pageValues{values: mostValues, encoding: format.ByteStreamSplit, width: 1 << 12}
	if got := x.held(10); got < mostValues<<12 {
		t.Errorf("%d bytes are charged", got)
	}
}

// The lists of a file's end are refused if they take much memory, though each thing takes a byte.
func TestParquetLists(t *testing.T) {
	const records = 2_000_000
	list := func(n int, b []byte) []byte { // a structure whose first field is a list of n structures
		head := []byte{0x19, 0xfc, byte(n) | 0x80, byte(n>>7) | 0x80, byte(n>>14) | 0x80, byte(n>>21) & 0x7f}
		return append(append(head, b...), 0)
	}
	end := list(1, list(records, make([]byte, records)))
	if _, err := measureThrift(end); err == nil || !strings.Contains(err.Error(), "take more than 1024 MiB") {
		t.Error(err)
	}
	end = list(1, list(1000, make([]byte, 1000)))
	if n, err := measureThrift(end); n != len(end) || err != nil {
		t.Errorf("%d of %d bytes: %v", n, len(end), err)
	}
}
