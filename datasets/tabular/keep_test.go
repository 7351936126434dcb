package tabular

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// told is the rows of a table as texts: the columns that are used, each with its place and sort.
func told(ctx context.Context, t *Table, used []bool) (rows []string, err error) {
	err = t.Each(ctx, used, func(row *Row) error {
		var b strings.Builder
		for i, yes := range used {
			if yes {
				fmt.Fprintf(&b, "%q %v %s %v;", row.Fields[i], row.Fields[i] == nil, row.At(i), row.Values != nil && row.Values[i])
			}
		}
		rows = append(rows, b.String())
		return nil
	})
	return rows, err
}

// Rows that are kept are those of the files, with their places, also once the files are gone. A first
// reading that fails keeps none.
func TestKeep(t *testing.T) {
	parquet := string(packedRows(t, customers(20)))
	for pattern, contents := range map[string]map[string]string{
		"*.csv":     {"1.csv": "a,b,c\n1,\"x\n\"\"y\"\"\",\n2,,z\n", "2.csv": "c,a,b\nz,3,\n\n,4,\"\"\n"},
		"*.jsonl":   {"1.jsonl": `{"a":1,"b":"x","c":null}` + "\n\n" + `{"b":"é","a":true}`, "2.jsonl": `{"c":"1"}`},
		"*.parquet": {"1.parquet": parquet, "2.parquet": parquet},
	} {
		t.Run(pattern, func(t *testing.T) {
			dir := folder(t, contents)
			table, err := Open(t.Context(), filepath.Join(dir, pattern), Options{Named: named})
			if err != nil {
				t.Fatal(err)
			}
			used := slices.Repeat([]bool{true}, table.Width)
			used[1] = false
			want, err := told(t.Context(), table, used)
			if err != nil || len(want) < 3 {
				t.Fatal(want, err)
			}
			file, err := os.CreateTemp(t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			table.Keep(file, used)
			if err := table.Each(t.Context(), used, func(*Row) error { return os.ErrInvalid }); !errors.Is(err, os.ErrInvalid) {
				t.Fatal(err)
			}
			for _, reading := range []string{"of the files", "of what was kept", "and again"} {
				if got, err := told(t.Context(), table, used); err != nil || !slices.Equal(got, want) {
					t.Fatalf("the reading %s: %q, %v; want %q", reading, got, err, want)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			if err := table.Each(t.Context(), nil, func(*Row) error { return nil }); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a column that is not kept is not read from the files: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := told(ctx, table, used); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if err := file.Truncate(30); err != nil {
				t.Fatal(err)
			}
			if _, err := told(t.Context(), table, used); err == nil {
				t.Error("a file cut short is read")
			} else if _, ok := errors.AsType[*KeepError](err); !ok {
				t.Error(err)
			}
		})
	}
}
