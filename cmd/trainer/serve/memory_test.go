package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/shape"
)

// The memory for rows of a table is that of at least as many as there are, and they take no
// more: a row of few letters may have many features.
func TestMemoryOfRows(t *testing.T) {
	category := columns.Column{Name: "c", Kind: columns.Category, Optional: true, Values: []string{"a", "b", "d", "e", "f", "g"}, Other: true}
	named := func(name string) columns.Column { return columns.Column{Name: name, Kind: columns.Number} }
	number := named("n")
	for _, x := range []struct {
		columns []columns.Column
		row     string
	}{
		{[]columns.Column{category}, `{}`},
		{[]columns.Column{category, number}, `{"n":1}`},
		{[]columns.Column{category, number}, `[null,1]`},
		{[]columns.Column{number, category}, `{"n":1,"c":"a","x":2,"y":[1,2]}`},
		{[]columns.Column{number, named("n2"), named("n3"), category}, `{"n":1,"n2":2,"n3":3,"c":",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,"}`},
	} {
		f := &columns.Fitted{Version: columns.Version, Columns: x.columns}
		info := &datasets.Info{Inputs: []datasets.Field{{Name: "input", Meta: shape.F32(f.Features())}}, Features: f.Names(), Columns: f}
		l := Limits{Samples: 1000}
		const n = 100
		body := "[" + strings.Repeat(x.row+",", n-1) + x.row + "]"
		most := newCosts(info, 8, &l).samples(int64(len(body)), int64(strings.Count(body, ",")), &l)
		in, err := readSamples(context.Background(), []byte(body), info, 0, l.Samples, int(most), nil)
		if err != nil {
			t.Fatalf("%s: %v", x.row, err)
		}
		if have := in.Shape()[0]; have != n || most < n {
			t.Errorf("%s: %d rows, and memory for %d", x.row, have, most)
		}
		if room := cap(in.Data().([]float32)); int64(room) > most*int64(f.Features()) {
			t.Errorf("%s: room for %d numbers, and memory for %d", x.row, room, most*int64(f.Features()))
		}
	}
}

// What is wrong in a row is worded as far as it is told, and a little further: not for each of its columns.
func TestFaultsOfAWideRow(t *testing.T) {
	const n = 1000
	f := &columns.Fitted{Version: columns.Version}
	for i := range n {
		f.Columns = append(f.Columns, columns.Column{Name: fmt.Sprintf("c%d", i), Kind: columns.Number})
	}
	info := &datasets.Info{Inputs: []datasets.Field{{Name: "input", Meta: shape.F32(f.Features())}}, Features: f.Names(), Columns: f}
	read := func(row string) (says string, allocs float64) {
		body := []byte("[" + row + "]")
		allocs = testing.AllocsPerRun(1, func() {
			_, err := readSamples(context.Background(), body, info, 0, 1, 1, nil)
			says = err.Error()
		})
		return says, allocs
	}
	good := func(k int) string { return strings.Repeat("7,", k) }
	bad := func(k int) string { return strings.TrimSuffix(strings.Repeat(`"x",`, k), ",") }
	some, few := read("[" + good(n-mostWrong) + bad(mostWrong) + "]")
	all, many := read("[" + bad(n) + "]")
	none, least := read("{}")
	if want := `"c939": "x" is not a number: send a finite number; and 60 more`; !strings.HasSuffix(some, want) {
		t.Errorf("%s\nwant %s", some, want)
	}
	if want := `"c3": "x" is not a number: send a finite number; and at least 60 more`; !strings.HasSuffix(all, want) {
		t.Errorf("%s\nwant %s", all, want)
	}
	if want := `"c14", "c15" and 984 more are missing: send each of c0, c1,`; !strings.Contains(none, want) {
		t.Errorf("%s\nwant %s", none, want)
	}
	if each := (many - few) / (n - mostWrong); each > 3 || least > n/4 { // each text is read
		t.Errorf("%v allocations for each value behind, and %v for an empty row", each, least)
	}
}
