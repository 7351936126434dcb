package command

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/internal/testall"
)

// TestNew draws tables: what new writes is a config that plan accepts, or it says why it writes none.
// The commands are processes of their own: their memory must not count as that of this one, which
// other tests pass on to what they measure.
func TestNew(t *testing.T) {
	testall.Long(t)
	dir := t.TempDir()
	tables, written := testall.Or(25, 150), 0
	for n := range tables {
		table := filepath.Join(dir, fmt.Sprintf("t%d.csv", n))
		config := filepath.Join(dir, fmt.Sprintf("t%d.yaml", n))
		text := rapid.Custom(drawnTable).Example(n)
		if err := os.WriteFile(table, text, 0o600); err != nil {
			t.Fatal(err)
		}
		code, errs := ran(t, "new", table, "--yes", "--out", config)
		yaml, err := os.ReadFile(config)
		if code != cli.ExitOK {
			if err == nil || code != cli.ExitUsage {
				t.Fatalf("exit code %d, config %q: %s\n%s", code, yaml, errs, text)
			}
			continue
		}
		written++
		if code, errs := ran(t, "plan", config); code != cli.ExitOK {
			t.Fatalf("plan: exit code %d: %s\n%s\n%s", code, errs, yaml, text)
		}
	}
	if written < tables/4 {
		t.Errorf("%d configs for %d tables", written, tables)
	}
}

// A name with characters that nobody sees is one that plan reads in the config, and that is asked for in quotes.
func TestNewOfAnUnseenName(t *testing.T) {
	dir := t.TempDir()
	table, config := filepath.Join(dir, "t.csv"), filepath.Join(dir, "t.yaml")
	text := "x,\"la\x7fb\u0085e\nl\u2028 \x01.\"\n" + strings.Repeat("1,2\n2,3\n5,3\n", 10)
	if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, says := ran(t, "new", table, "--yes", "--out", config)
	if want := `Which column is to be predicted? "la\x7fb\u0085e\nl\u2028 \x01.", the default`; code != cli.ExitOK || !strings.Contains(says, want) {
		t.Fatalf("exit code %d; want %s:\n%s", code, want, says)
	}
	if code, says := ran(t, "plan", config); code != cli.ExitOK {
		t.Errorf("plan: exit code %d: %s", code, says)
	}
}

// A long text is read in part, and validated by a small one. The time of a run that is longer than some
// seconds is told.
func TestNewOfALongText(t *testing.T) {
	dir := t.TempDir()
	text, config := filepath.Join(dir, "t.txt"), filepath.Join(dir, "t.yaml")
	if err := os.WriteFile(text, bytes.Repeat([]byte("The day was like the day before, and the sea was calm.\n"), 75_000), 0o600); err != nil {
		t.Fatal(err)
	}
	code, says := ran(t, "new", text, "--yes", "--out", config)
	yaml, err := os.ReadFile(config)
	if err != nil || code != cli.ExitOK {
		t.Fatalf("exit code %d, %v: %s", code, err, says)
	}
	for _, want := range []string{"\n  split: 0.90", "\n  steps: 5000 ", "\n  boundary: 250 ", "\nearly_stopping:\n  patience: 5 "} {
		if !strings.Contains(string(yaml), want) {
			t.Errorf("the config lacks %q:\n%s", want, yaml)
		}
	}
	if !regexp.MustCompile(`is written: at most 5,000 steps, about \d+ (s|minutes) by arithmetic\n`).MatchString(says) {
		t.Errorf("no time of the run: %s", says)
	}
}

// A written config trains a model that answers well where a linear one cannot, and from few rows where it can.
func TestNewTrainsWell(t *testing.T) {
	testall.Long(t)
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name  string
		rows  int
		class func(x, y float64) bool
		least float64 // share of the test part that is right; 5 in 100 labels are wrong
	}{
		{"xor", 2000, func(x, y float64) bool { return x > 0 != (y > 0) }, 0.88}, // a linear model: 0.5
		{"line", 150, func(x, y float64) bool { return x+2*y > 0 }, 0.8},
	} {
		var b strings.Builder
		b.WriteString("x,y,noise,class\n")
		for range c.rows {
			x, y := r.NormFloat64(), r.NormFloat64()
			fmt.Fprintf(&b, "%.3f,%.3f,%.3f,%v\n", x, y, r.NormFloat64(), c.class(x, y) != (r.IntN(20) == 0))
		}
		table, config, run := filepath.Join(dir, c.name+".csv"), filepath.Join(dir, c.name+".yaml"), filepath.Join(dir, c.name)
		if err := os.WriteFile(table, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"new", table, "--yes", "--out", config}, {"train", config, "--run", run, "--quiet"}} {
			if code, says := ran(t, args...); code != cli.ExitOK {
				t.Fatalf("trainer %q: exit code %d: %s", args, code, says)
			}
		}
		var report struct{ Test struct{ Accuracy float64 } }
		text, err := os.ReadFile(filepath.Join(run, "report.json"))
		if err = errors.Join(err, json.Unmarshal(text, &report)); err != nil {
			t.Fatal(err)
		}
		if report.Test.Accuracy < c.least {
			t.Errorf("%s: %.3f of the test part is right, want %g", c.name, report.Test.Accuracy, c.least)
		}
	}
}

// ran runs a command to its end, and gives what it says.
func ran(t *testing.T, args ...string) (code int, says string) {
	t.Helper()
	var b bytes.Buffer
	c := exec.Command("trainer", args...)
	c.Stdout, c.Stderr = &b, &b
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), b.String()
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
