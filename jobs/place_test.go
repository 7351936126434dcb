package jobs

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestPlaceOfAFailure: a job that fails for its config names the key, and the line in the text that jobs show --config
// prints. Equal failures of trials are one.
func TestPlaceOfAFailure(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "t.csv")
	write := func(rows string) {
		t.Helper()
		if err := os.WriteFile(table, []byte(rows), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Repeat("1,2,a\n3,4,b\n", 20))
	c, err := configs.Parse("x.yaml", []byte("# a comment\n\nmodel: {preset: mlp, hidden: [4]}\ndata: {source: csv, path: t.csv, label: 2}\ntrain: {epochs: 1, batch: 8}\n"),
		configs.Overlay{Set: []string{"data.path=" + table}})
	if err != nil {
		t.Fatal(err)
	}
	config, err := c.Kept()
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLocal(filepath.Join(dir, "queue.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sweep := range []string{"", "sweep: {config: digits, vary: {seed: [1, 2]}}"} {
		if _, err := l.Submit(t.Context(), Submission{Key: "k" + sweep, Config: config, Sweep: sweep, Parent: dir}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	write("1,2,a\n")
	d := start(t, dir, "cpu:1")
	v := d.await(t, 1)
	at := regexp.MustCompile(`^data(\.\w+)? \(line (\d+) of trainer jobs show 1 --config\): `).FindStringSubmatch(v.Where)
	if v.State != queue.Failed || at == nil {
		t.Fatalf("%s: %s", v.State, v.Where)
	}
	text, err := d.Config(1)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(at[2])
	if line := strings.Split(string(text), "\n")[n-1]; !strings.Contains(line, strings.TrimPrefix("data"+at[1], "data.")+":") {
		t.Errorf("line %d is %q: %s", n, line, v.Where)
	}
	if v := d.await(t, 2); v.State != queue.Failed || strings.Count(v.Where, "line "+at[2]+" of the trial's jobs show --config): ") != 1 {
		t.Errorf("the sweep is %s: %s", v.State, v.Where)
	}
	if err := keyed(berth.ErrData, &v.Job, text); !berth.IsUsage(err) || err.Error() != berth.ErrData.Error() {
		t.Errorf("an error without a place: %v", err)
	}
}
