package command

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

// TestNew draws tables: what new writes is a config that plan accepts, or it says why it writes none.
func TestNew(t *testing.T) {
	dir := t.TempDir()
	n, written := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		table := filepath.Join(dir, fmt.Sprintf("t%d.csv", n))
		config := filepath.Join(dir, fmt.Sprintf("t%d.yaml", n))
		if err := os.WriteFile(table, drawnTable(t), 0o600); err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		code := run(t.Context(), &signals.Stop{}, []string{"new", table, "--yes", "--out", config}, io.Discard, &errs)
		yaml, err := os.ReadFile(config)
		if code != cli.ExitOK {
			if err == nil || code != cli.ExitUsage {
				t.Fatalf("exit code %d, config %q: %s", code, yaml, &errs)
			}
			return
		}
		written++
		if code := run(t.Context(), &signals.Stop{}, []string{"plan", config}, io.Discard, &errs); code != cli.ExitOK {
			t.Fatalf("plan: exit code %d: %s\n%s", code, &errs, yaml)
		}
	})
	if written < n/4 {
		t.Errorf("%d configs for %d tables", written, n)
	}
}

// drawnTable is a table with words, dates, numbers and missing values under names of any kind.
func drawnTable(t *rapid.T) []byte {
	name := rapid.SampledFrom([]string{"a", "yes", "x y", "b: c", "# d", `"e"`, "f,g", "- h", "[i]", "label", "{j}", "k'l", "null", "1", "é"})
	names := rapid.SliceOfNDistinct(name, 2, 5, rapid.ID[string]).Draw(t, "names")
	kinds := make([]*rapid.Generator[string], len(names))
	for i := range kinds {
		kinds[i] = rapid.SampledFrom([]*rapid.Generator[string]{
			rapid.SampledFrom([]string{"red", "green", "blue"}),
			rapid.SampledFrom([]string{"yes", "no"}),
			rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.Float32Range(-1e6, 1e6).Draw(t, "number")) }),
			rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "whole")) }),
			rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("2024-03-%02d", rapid.IntRange(1, 28).Draw(t, "day")) }),
			rapid.SampledFrom([]string{"red", "", "NA", "blue"}),
			rapid.Just("same"),
			rapid.StringMatching("[a-z]{1,8}"),
		}).Draw(t, "kind")
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(names)
	for range rapid.IntRange(0, 60).Draw(t, "rows") {
		row := make([]string, len(names))
		for i, k := range kinds {
			row[i] = k.Draw(t, "field")
		}
		_ = w.Write(row)
	}
	w.Flush()
	return b.Bytes()
}
