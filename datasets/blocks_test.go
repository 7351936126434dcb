package datasets

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/fault"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/filecache"
)

// Each row is in one part and comes once an epoch, whatever the number of rows and their blocks. Each
// block is split alike, and its rows stay together.
func TestBlocks(t *testing.T) {
	for rows := 1; rows < 40; rows++ {
		for size := 1; size < 45; size++ {
			for _, fraction := range []float64{0.5, 0.8, 1} {
				table := &table{rows: rows}
				train, val, err := splitBlocks(table, Spec{Seed: 3}, fraction, size)
				if err != nil {
					continue
				}
				name := fmt.Sprintf("%d rows in blocks of %d, split %v", rows, size, fraction)
				var all []int
				for _, p := range []*Part{train, val} {
					if p == nil {
						continue
					}
					var part []int
					for i := range p.count {
						part = append(part, p.splitRow(i))
					}
					all = append(all, part...)
					slices.Sort(part)
					for epoch := range 3 {
						order := p.epochOrder(epoch)
						var read []int
						changes := 0
						for i := range p.count {
							read = append(read, p.row(i, order))
							if i > 0 && read[i]/min(size, rows) != read[i-1]/min(size, rows) {
								changes++
							}
						}
						if most := (rows - 1) / min(size, rows); changes > most {
							t.Fatalf("%s: %d changes of the block in %v", name, changes, read)
						}
						if slices.Sort(read); !slices.Equal(read, part) {
							t.Fatalf("%s: %v, want %v", name, read, part)
						}
					}
				}
				slices.Sort(all)
				for i, row := range all {
					if row != i || len(all) != rows {
						t.Fatalf("%s: %v", name, all)
					}
				}
			}
		}
	}
}

// Epochs differ in the order of blocks and of the rows within them.
func TestBlockOrders(t *testing.T) {
	train, _, err := splitBlocks(&table{rows: 105}, Spec{Seed: 3}, 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	blockOrders, within, lasts := map[string]bool{}, map[string]bool{}, map[int]bool{}
	for epoch := range 20 {
		order := train.epochOrder(epoch)
		var of, rows []int
		for i := range train.count {
			row := train.row(i, order)
			if of = append(of, row/10); row < 10 {
				rows = append(rows, row)
			}
		}
		blockOrders[fmt.Sprint(slices.Compact(of))], within[fmt.Sprint(rows)] = true, true
		lasts[slices.Index(of, 10)] = true
	}
	if len(blockOrders) < 20 || len(within) < 20 || len(lasts) < 5 {
		t.Errorf("%d orders of blocks, %d within one, %d places of the last block", len(blockOrders), len(within), len(lasts))
	}
}

// mixedTable is a table with words, numbers, dates and missing values.
func mixedTable(rows int) string {
	var b strings.Builder
	b.WriteString("n,plan,day,k\n")
	for i := range rows {
		n, plan := fmt.Sprint(i*7%rows), []string{"basic", "plus", "pro", ""}[i%4]
		if i%5 == 3 {
			n = ""
		}
		fmt.Fprintf(&b, "%s,%s,2024-01-%02d,%s\n", n, plan, 1+i%28, []string{"x", "y"}[i*i%7%2])
	}
	return b.String()
}

// A table beside memory has the samples that it has in memory, if its blocks are split alike: with
// all rows to train on and the order of the file, all are the same.
func TestBlockTable(t *testing.T) {
	path := write(t, "x.csv", mixedTable(300))
	for name, o := range map[string]columns.Options{"found": {}, "given": {Columns: []columns.Option{{Name: "n", Missing: columns.FillFrequent}}}} {
		spec := Spec{Source: "csv", Path: path, Split: 1, KeepOrder: true, Columns: o, CSV: CSVOptions{Standardize: true}}
		want := open(t, spec)
		for _, rows := range []int{70, 1 << 20} {
			spec.Block = int64(4 * 4 * rows) // of 4 columns
			got := open(t, spec)
			if got.Train.table.mapping == nil || got.Train.blocks.size != min(rows, 300) {
				t.Fatalf("%s: %+v", name, got.Train.blocks)
			}
			sameTable(t, name, got, want)
		}
	}
}

// sameTable compares all but the fingerprint, in which the memory is.
func sameTable(t *testing.T, name string, got, want *Dataset) {
	t.Helper()
	if a, b := readAll(t, got.Train, 0), readAll(t, want.Train, 0); !slices.EqualFunc(a, b, slices.Equal[[]byte]) {
		t.Errorf("%s: other samples", name)
	}
	if fmt.Sprint(got.Columns) != fmt.Sprint(want.Columns) || fmt.Sprint(got.Options) != fmt.Sprint(want.Options) {
		t.Errorf("%s: %v, want %v", name, got.Columns, want.Columns)
	}
	if got.Info.Fingerprint == want.Info.Fingerprint {
		t.Errorf("%s: the memory is no part of the fingerprint", name)
	}
}

// A model of a table of numbers in memory does not go on with blocks: it has no kinds of columns.
func TestBlocksOfNumbers(t *testing.T) {
	spec := Spec{Source: "csv", Path: write(t, "x.csv", "a,y\n"+strings.Repeat("1,0\n2,1\n", 50))}
	first := open(t, spec)
	spec.Like, spec.Block = &first.Info, 1<<12
	if _, err := Open(t.Context(), spec); !errors.Is(err, ErrSpec) || fault.Blame(err) != "memory" || !strings.Contains(err.Error(), "was trained on a table in memory") {
		t.Error(err)
	}
}

// The size of the blocks decides what is read when; the free memory does not. Evaluation reads the
// validation part of training.
func TestBlockIdentity(t *testing.T) {
	spec := Spec{Source: "csv", Path: write(t, "x.csv", mixedTable(300)), Seed: 5, Block: 4 * 4 * 70}
	first := open(t, spec)
	spec.Memory = 1 << 30
	second := open(t, spec)
	if first.Info.Fingerprint != second.Info.Fingerprint || !slices.EqualFunc(readAll(t, first.Train, 1), readAll(t, second.Train, 1), slices.Equal[[]byte]) {
		t.Error("free memory changes what is read")
	}
	like := spec
	like.Like = &first.Info
	again := open(t, like)
	if again.Val == nil || !slices.EqualFunc(readAll(t, first.Val, 0), readAll(t, again.Val, 0), slices.Equal[[]byte]) {
		t.Error("evaluation reads another part")
	}
	wider := like // a column that does not go in makes blocks of fewer rows: the split is another
	lines := strings.Split(strings.TrimSuffix(mixedTable(300), "\n"), "\n")
	wider.Path = write(t, "wider.csv", "extra,"+strings.Join(lines, "\nmore,")+"\n")
	if x := open(t, wider); x.Info.Fingerprint == first.Info.Fingerprint || x.Val != nil {
		t.Error("blocks of other rows are the same data")
	}
	if wider.Block = 0; open(t, wider).Info.Fingerprint == first.Info.Fingerprint {
		t.Error("no blocks are the same data")
	}
	spec.Block *= 2
	if other := open(t, spec); other.Info.Fingerprint == first.Info.Fingerprint {
		t.Error("another size of blocks has the same fingerprint")
	}
	parts, err := OpenInputs(t.Context(), like, &first.Info, filepath.Clean(spec.Path))
	if err != nil || parts[0].Len() != 300 {
		t.Errorf("inputs: %v, %v", parts, err)
	}
	_, inFile, err := DescribeTable(t.Context(), like)
	like.Block = 0
	_, inMemory, e := DescribeTable(t.Context(), like)
	if err != nil || e != nil || fmt.Sprint(inFile) != fmt.Sprint(inMemory) {
		t.Errorf("described as %v, %v; in memory as %v, %v", inFile, err, inMemory, e)
	}
	numbers := Spec{Source: "csv", Path: write(t, "n.csv", strings.Repeat("1,2,x\n3,4,y\n", 50)), Block: 4 * 3 * 20, CSV: CSVOptions{Standardize: true}}
	ds := open(t, numbers)
	if v := shape.View[float32](readAll(t, ds.Train, 0)[0]); len(v) != 160 {
		t.Errorf("a table of numbers: %d", len(v))
	}
}

// A file to predict from that lacks the lines above the header is refused: it would lose rows, and
// its columns would go by their places.
func TestSkippedLinesOfInputs(t *testing.T) {
	spec := Spec{Source: "csv", Path: write(t, "x.csv", "a title\n\n"+mixedTable(60)), SkipRows: 2}
	info := open(t, spec).Info
	plain := write(t, "plain.csv", mixedTable(10))
	if _, err := OpenInputs(t.Context(), spec, &info, plain); Blame(err) != "skip_rows" || !strings.Contains(err.Error(), "add --set data.skip_rows=0") {
		t.Errorf("without the lines: %v", err)
	}
	if parts, err := OpenInputs(t.Context(), spec, &info, spec.Path); err != nil || parts[0].Len() != 60 {
		t.Errorf("with them: %v, %v", parts, err)
	}
	spec.SkipRows = 0
	if parts, err := OpenInputs(t.Context(), spec, &info, plain); err != nil || parts[0].Len() != 10 {
		t.Errorf("skipping none: %v, %v", parts, err)
	}
}

// A folder of cached files that cannot be used is noted, and the samples are elsewhere.
func TestUnusableCacheIsNoted(t *testing.T) {
	file := write(t, "x.csv", people(100))
	t.Setenv(filecache.Variable, filepath.Join(file, "below a file"))
	ds := open(t, Spec{Source: "csv", Path: file, Block: 1 << 12})
	noted := func(note string) bool { return strings.Contains(note, "the folder of cached files cannot be used") }
	if !slices.ContainsFunc(ds.Notes, noted) {
		t.Errorf("%q", ds.Notes)
	}
}

// A column that holds lists is ignored beside memory, too.
func TestNestedBesideMemory(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, `{"a": %d, "list": [%d], "y": "%c"}`+"\n", i, i, 'k'+rune(i%2))
	}
	s := Spec{Source: "csv", Path: write(t, "x.jsonl", b.String()), Block: 1 << 12, Columns: columns.Options{Columns: []columns.Option{{Name: "list", Kind: columns.Ignore}}}}
	if ds := open(t, s); len(ds.Info.Features) != 1 {
		t.Error(ds.Info.Features)
	}
}

// A Division gives the rows of a table beside memory to the parts that they have in memory. Its training
// part is read by blocks, and all of it in each epoch.
func TestBlocksDivided(t *testing.T) {
	lines := strings.SplitAfter(mixedTable(300), "\n")
	for i := range lines[1:300] {
		lines[i+1] = fmt.Sprintf("g%d,%s", i%23, lines[i+1])
	}
	lines[0], lines[300] = "who,"+lines[0], "g1,"+lines[300]
	s := Spec{Source: "csv", Path: write(t, "x.csv", strings.Join(lines, "")), Seed: 4, Columns: columns.Options{Columns: []columns.Option{{Name: "who", Kind: columns.Ignore}}}}
	for _, d := range []Division{
		{Val: 0.1, Test: 0.1, Stratify: true}, {Val: 0.2, By: "who"}, {Val: 0.1, Test: 0.2, Latest: "day"}, {Folds: 5, Fold: 2}, {Folds: 3, Fold: 1, By: "who", Test: 0.2},
	} {
		s.Division, s.Block = &d, 0
		want := open(t, s)
		s.Block = 4 * 5 * 40 // the rows of a block: 40
		got := open(t, s)
		for i, part := range []*Part{got.Train, got.Val, got.Test} {
			if in := []*Part{want.Train, want.Val, want.Test}[i]; !slices.Equal(rowsIn(part), rowsIn(in)) {
				t.Errorf("%+v: other rows in part %d", d, i)
			}
		}
		size := 40 * got.Train.count / 300
		if got.Train.blocks == nil || got.Train.blocks.size != size {
			t.Fatalf("%+v: blocks %+v, want %d rows", d, got.Train.blocks, size)
		}
		all := rowsIn(got.Train)
		for epoch := range 2 {
			order := got.Train.epochOrder(epoch)
			var read []int
			changes := 0
			for i := range all {
				read = append(read, got.Train.row(i, order))
				if i > 0 && slices.Index(all, read[i])/size != slices.Index(all, read[i-1])/size {
					changes++
				}
			}
			if slices.Equal(read, all) || changes > (len(all)-1)/size {
				t.Errorf("%+v: %d changes of the block", d, changes)
			}
			if slices.Sort(read); !slices.Equal(read, all) {
				t.Errorf("%+v: epoch %d reads %v", d, epoch, read)
			}
		}
		like := s
		like.Like = kept(t, got.Info)
		if again := open(t, like); !slices.Equal(rowsIn(again.Val), rowsIn(got.Val)) || !slices.Equal(rowsIn(again.Test), rowsIn(got.Test)) {
			t.Errorf("%+v: evaluation reads other parts", d)
		}
	}
}
