package tabular

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/datasets/fault"
)

// folder has files of some contents.
func folder(t testing.TB, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// named says that the first row names the columns.
func named([][]string) bool { return true }

// above says that the first row names the columns if it begins with an a.
func above(head [][]string) bool { return head[0][0] == "a" }

// rowsOf is a table as a text: a line for each row, with | between the fields and - for none.
func rowsOf(ctx context.Context, path string, o Options, used []bool) (string, error) {
	t, err := Open(ctx, path, o)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintln(&b, strings.Join(t.Names, "|"))
	err = t.Each(ctx, used, func(row *Row) error {
		for i, f := range row.Fields {
			if i > 0 {
				b.WriteByte('|')
			}
			if f == nil {
				b.WriteByte('-')
			}
			b.Write(f)
		}
		b.WriteByte('\n')
		return nil
	})
	return b.String(), err
}

// Files of a pattern are one table, in the order of their names. Columns are found by name.
func TestSeveralFiles(t *testing.T) {
	dir := folder(t, map[string]string{
		"sales-2.csv": "plan,age\ngold,2\n", "sales-1.csv": "age,plan\n1,basic\n", "sales-3.csv": "age,plan\n", "other.csv": "x\n1\n",
		"n-1.csv": "1,2\n", "n-2.csv": "3,4\n",
		"j-1.jsonl": `{"age": 1}`, "j-2.jsonl": `{"plan": "gold", "age": 2}`,
		"a[1].csv": "b\n7\n",
	})
	for pattern, c := range map[string]struct {
		named func([][]string) bool
		want  string
	}{
		"sales-*.csv": {named, "age|plan\n1|basic\n2|gold\n"},
		"sales-?.csv": {named, "age|plan\n1|basic\n2|gold\n"},
		"n-*.csv":     {nil, "\n1|2\n3|4\n"},
		"j-*.jsonl":   {nil, "age|plan\n1|-\n2|gold\n"},
		"a[1].csv":    {named, "b\n7\n"}, // a file of that name
	} {
		if got, err := rowsOf(t.Context(), filepath.Join(dir, pattern), Options{Named: c.named}, nil); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", pattern, got, err, c.want)
		}
	}
}

// Files that do not fit together are refused, and both are named.
func TestFilesThatDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		named func([][]string) bool
		says  string
	}{
		"a column more":          {map[string]string{"x-1.csv": "a\n1\n", "x-2.csv": "a,b\n1,2\n"}, named, `x-2.csv has the column "b", and `},
		"a column less":          {map[string]string{"x-1.csv": "a,b\n1,2\n", "x-2.csv": "a\n1\n"}, named, `x-2.csv lacks the column "b" that `},
		"a column twice":         {map[string]string{"x-1.csv": "a,b\n1,2\n", "x-2.csv": "a,a\n1,2\n"}, named, `x-2.csv: the columns 1 and 2 are both called "a": rename one`},
		"one twice in the first": {map[string]string{"x-1.csv": "a,a\n1,2\n", "x-2.csv": "a,b\n1,2\n"}, named, `x-1.csv: the columns 1 and 2 are both called "a": rename one`},
		"a header in the first":  {map[string]string{"x-1.csv": "a,b\nx,y\n", "x-2.csv": "z,y\n"}, above, `x-2.csv does not: the first field of its first row is "z", which is no column of the header`},
		"a header in the second": {map[string]string{"x-1.csv": "z,y\n", "x-2.csv": "x,y\n", "x-3.csv": "a,b\nx,y\n"}, above, `x-3.csv begins with one, whose first column is "a": give each file the same header`},
		"another width":          {map[string]string{"x-1.csv": "1,2\n", "x-2.csv": "1\n"}, nil, "x-1.csv has 2 columns, and "},
		"an empty file":          {map[string]string{"x-1.csv": "a\n1\n", "x-2.csv": ""}, named, "x-2.csv is empty"},
		"two formats":            {map[string]string{"x-1.csv": "a\n1\n", "x-2.csv": `{"a": 1}`}, named, "x-1.csv is csv, and "},
		"headers alone":          {map[string]string{"x-1.csv": "a\n", "x-2.csv": "a\n"}, named, "has a header but no rows"},
	} {
		_, err := rowsOf(t.Context(), filepath.Join(folder(t, c.files), "x-*"), Options{Named: c.named}, nil)
		if err == nil || !strings.Contains(err.Error(), c.says) || !errors.Is(err, fault.ErrFormat) && !errors.Is(err, fault.ErrTooFew) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "*.csv"), Options{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no file matches") {
		t.Errorf("no file: %v", err)
	}
	if _, err := Open(t.Context(), "[", Options{}); !errors.Is(err, fault.ErrSpec) {
		t.Errorf("a bad pattern: %v", err)
	}
}

// A folder's name is no pattern.
func TestPatternInAFolder(t *testing.T) {
	dir := folder(t, map[string]string{"m[1]/o-1.csv": "a\n1\n", "m[1]/o-2.csv": "a\n2\n", "m1/o-9.csv": "a\n9\n"})
	if got, err := rowsOf(t.Context(), filepath.Join(dir, "m[1]", "o-*.csv"), Options{Named: named}, nil); got != "a\n1\n2\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := rowsOf(t.Context(), filepath.Join(dir, "m?", "o-*.csv"), Options{Named: named}, nil); got != "a\n9\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Lines above the header are skipped, in each file, and places still count them.
func TestSkip(t *testing.T) {
	dir := folder(t, map[string]string{"x-1.csv": "\ufeffa \"report\n\na,b\n1,2\n", "x-2.csv": "another\nreport\nb,a\n4,3\n", "x.jsonl": "# a comment\n\n{\"a\": 1}\n", "bad.csv": "a\nb\nc,d\n1\n"})
	for name, want := range map[string]string{"x-*.csv": "a|b\n1|2\n3|4\n", "x.jsonl": "a\n1\n"} {
		if got, err := rowsOf(t.Context(), filepath.Join(dir, name), Options{Named: named, Skip: 2}, nil); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := rowsOf(t.Context(), filepath.Join(dir, "bad.csv"), Options{Named: named, Skip: 2}, nil); err == nil || !strings.Contains(err.Error(), "bad.csv:4: 1 columns") {
		t.Error(err)
	}
	_, err := rowsOf(t.Context(), filepath.Join(dir, "x-1.csv"), Options{Named: named, Skip: 9}, nil)
	if fault.Blame(err) != "skip_rows" || !strings.Contains(err.Error(), "has 4 lines, and skip_rows is 9") {
		t.Error(err)
	}
	dir = folder(t, map[string]string{"y.jsonl": "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 3}\n"})
	_, err = rowsOf(t.Context(), filepath.Join(dir, "y.jsonl"), Options{Named: named, Skip: 2}, nil)
	if fault.Blame(err) != "skip_rows" || !strings.Contains(err.Error(), "y.jsonl:1: this line is an object, and skip_rows is 2") {
		t.Error(err)
	}
}

// The contents decide on the format, whatever the name, and a packed file is one of its contents.
func TestFormats(t *testing.T) {
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("{\"a\":1}\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"a,b\n": CSV, "{a},b\n": CSV, "{}\n": CSV, " {\"a\": 1}": JSONLines, "\ufeff{ \"a\":1}": JSONLines, "[\n{\"a\":1}]": JSONLines, "[1,2]\n": CSV,
		"PAR1,b\n": CSV, "PAR1\n1\n": CSV, "PAR1\x15\x04": Parquet, packed.String(): JSONLines,
	} {
		got, err := FormatOf(t.Context(), filepath.Join(folder(t, map[string]string{"x": text}), "x"), 0)
		if got != want || err != nil {
			t.Errorf("%.20q: %s, %v, want %s", text, got, err, want)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(folder(t, map[string]string{"x.parquet": "a,b\n"}), "x.parquet"), Options{}); !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), "is not a Parquet file") {
		t.Error(err)
	}
}

// A file that is replaced, or written to, is refused as changed, though it has as many rows and bytes.
func TestChanges(t *testing.T) {
	contents := map[string][2]string{
		"x.csv":     {"a\n1\n2\n", "a\n3\n4\n"},
		"x.jsonl":   {"{\"a\":1}\n{\"a\":2}\n", "{\"a\":3}\n{\"a\":4}\n"},
		"x.parquet": {string(packedRows(t, []struct{ A int64 }{{1}, {2}})), string(packedRows(t, []struct{ A int64 }{{3}, {4}}))},
	}
	for name, c := range contents {
		path := filepath.Join(folder(t, map[string]string{name: c[0]}), name)
		table, err := Open(t.Context(), path, Options{Named: named})
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		each := func(change func() error) error {
			return table.Each(t.Context(), nil, func(*Row) error {
				if rows++; rows%2 == 1 && change != nil {
					return change()
				}
				return nil
			})
		}
		if err := each(nil); err != nil || rows != 2 {
			t.Fatalf("%s: %d rows, %v", name, rows, err)
		}
		err = each(func() error { // its first contents are read on
			return errors.Join(os.WriteFile(path+".new", []byte(c[1]), 0o644), os.Chtimes(path+".new", time.Time{}, table.seen[0].ModTime()), os.Rename(path+".new", path))
		})
		if !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), name+" changed while it was read") || rows != 4 {
			t.Errorf("%s, replaced: %d rows, %v", name, rows, err)
		}
		if err := each(nil); !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), name+" changed while it was read") {
			t.Errorf("%s, replaced before: %v", name, err)
		}
	}
	path := filepath.Join(folder(t, map[string]string{"x.csv": "a,b\n1,2\n3,4\n"}), "x.csv")
	table, err := Open(t.Context(), path, Options{Named: named})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("a,b\n1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := table.Each(t.Context(), nil, func(*Row) error { return nil }); err == nil || !strings.Contains(err.Error(), "x.csv changed while it was read") {
		t.Errorf("written to: %v", err)
	}
}

// FuzzFiles: files of a pattern are the rows of each file, with their fields by name, or are
// refused.
func FuzzFiles(f *testing.F) {
	for _, c := range [][2]string{
		{"a,b\n1,x\n", "b,a\ny,2\n"}, {"1,2\n", "3,4\n"}, {"a,b\n", "a,b\n1,2\n"}, {"a,b\n1,2\n", "a,a\n1,2\n"}, {"1,2\n", "a,b\n1,2\n"}, {"a\n1\n", ""},
		{"{\"a\":1}\n", "{\"b\":\"x\",\"a\":2}\n"}, {"{\"a\":1}\n", "a\n1\n"}, {"\"a\nb\",c\n1,2\n", "c,\"a\nb\"\n1,2\n"},
	} {
		f.Add([]byte(c[0]), []byte(c[1]))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		dir := folder(t, map[string]string{"x-1": string(first), "x-2": string(second)})
		header := Options{Named: func(head [][]string) bool { return isObject([]byte(head[0][0])) || strings.HasPrefix(head[0][0], "a") }}
		got, err := rowsByName(t, filepath.Join(dir, "x-*"), header)
		if err != nil {
			if !errors.Is(err, fault.ErrFormat) && !errors.Is(err, fault.ErrTooFew) {
				t.Error(err)
			}
			return
		}
		var want []map[string]string
		for _, name := range []string{"x-1", "x-2"} {
			rows, err := rowsByName(t, filepath.Join(dir, name), Options{Named: func([][]string) bool { return got.names != nil }})
			if err != nil && !errors.Is(err, fault.ErrTooFew) {
				t.Errorf("%s alone: %v", name, err)
			}
			want = append(want, rows.rows...)
		}
		if !slices.EqualFunc(got.rows, want, maps.Equal[map[string]string, map[string]string]) {
			t.Errorf("%v, want %v", got.rows, want)
		}
	})
}

// namedRows are the rows of a table.
type namedRows struct {
	names []string
	rows  []map[string]string // a value for each name, or number, that a row has one of
}

func rowsByName(t *testing.T, path string, o Options) (all namedRows, err error) {
	table, err := Open(t.Context(), path, o)
	if err != nil {
		return all, err
	}
	all.names = table.Names
	err = table.Each(t.Context(), nil, func(row *Row) error {
		values := map[string]string{}
		for i, field := range row.Fields {
			name := fmt.Sprint(i)
			if table.Names != nil {
				name = table.Names[i]
			}
			if field != nil {
				values[name] = string(field)
			}
		}
		all.rows = append(all.rows, values)
		return nil
	})
	return all, err
}

// FuzzPattern: a pattern gives the files that it matches, in order, or one error.
func FuzzPattern(f *testing.F) {
	for _, pattern := range []string{"*", "x-?", "x-[12]", "[", "*/*", "\\*", "m[1]/*", "nothing*", "", "x-1", "[^x]*"} {
		f.Add(pattern)
	}
	dir := folder(f, map[string]string{"x-1": "a", "x-2": "a", "m[1]/y": "a", "m1/z": "a"})
	f.Fuzz(func(t *testing.T, pattern string) {
		if strings.Contains(pattern, "..") {
			t.Skip("other folders may change meanwhile")
		}
		found, err := Matches(filepath.Join(dir, "x-*") + pattern)
		if err == nil && (len(found) == 0 || !slices.IsSorted(found)) {
			t.Errorf("%q", found)
		}
		found, err = Matches(dir + string(filepath.Separator) + pattern)
		if err != nil {
			if !errors.Is(err, fault.ErrSpec) && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			return
		}
		if len(found) == 0 || !slices.IsSorted(found) {
			t.Errorf("%q", found)
		}
		for _, path := range found {
			if _, err := os.Stat(path); err != nil && strings.ContainsAny(pattern, "*?[") {
				t.Error(err)
			}
		}
	})
}
