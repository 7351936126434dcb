package command

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/internal/testall"
)

// TestRanksBench: bench measures the steps that ranks take together, as one process prints them and with its weights. Modes of one
// process are refused once.
func TestRanksBench(t *testing.T) {
	eachMPI(t, func(t *testing.T, m mpirun) {
		dir := writeFiles(t, map[string]string{"c.yaml": ranksConfig})
		args := []string{"bench", "mlp", "c.yaml", "--steps", "10", "--threads", "1", "--microbatches", "4", "--reduction", "tree", "--json"}
		ranks, alone := benched(t, m.run(t, dir, slices.Repeat([]rank{{nil, args}}, 2)...).out), benched(t, byItself(t, dir, args...))
		for i, r := range ranks {
			if one := alone[i]; r.Name != one.Name || r.Steps != 10 || r.WeightsSHA256 != one.WeightsSHA256 || r.Loss != one.Loss || len(r.Devices) != 2 {
				t.Errorf("ranks measure %+v, and one process %+v", r, one)
			}
			x := r.Ranks
			if x == nil || x.Machines != 1 || x.Library == "" || x.PredictedMS <= 0 || len(x.Each) != 2 {
				t.Fatalf("%s: of ranks, it says %+v", r.Name, x)
			}
			for _, k := range x.Each {
				if more := k.SentBytes - k.PredictedSentBytes; k.WorksMS <= 0 || k.PredictedSentBytes <= 0 || more < 0 || more > 4096 {
					t.Errorf("%s: %+v", r.Name, k)
				}
			}
		}
		for _, x := range []struct {
			ranks [2][]string
			says  string
			usual bool
		}{
			{[2][]string{{"bench", "--generate"}, {"bench", "--generate"}}, "bench --generate is of one process, and 2 were started", true},
			{[2][]string{{"bench", "mlp", "--serve"}, {"bench", "mlp", "--serve"}}, "bench --serve is of one process", false},
			{[2][]string{{"bench", "mlp", "--watch"}, {"bench", "mlp", "--watch"}}, "bench --watch is of one process", false},
			{[2][]string{{"bench", "mlp", "--steps", "3"}, {"bench", "mlp", "--steps", "4"}}, "--steps differs: it is 3 on rank 0 (", false},
		} {
			if !x.usual && !testall.Wanted() {
				continue
			}
			o := m.run(t, dir, rank{nil, x.ranks[0]}, rank{nil, x.ranks[1]})
			if lines := o.told(); o.code != 2 || o.left || len(lines) != 1 || !strings.Contains(lines[0], x.says) {
				t.Errorf("exit code %d, left: %v, told %q, want once %q", o.code, o.left, lines, x.says)
			}
		}
	})
}

// byItself is the output of one process.
func byItself(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("trainer", args...)
	c.Dir = dir
	b, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// benched reads the one list of results in an output.
func benched(t *testing.T, text string) (rs []bench.Result) {
	t.Helper()
	at := strings.Index(text, "[\n")
	if at < 0 || strings.Count(text, "[\n  {") != 1 {
		t.Fatalf("there is not one list of results: %s", text)
	}
	if err := json.NewDecoder(strings.NewReader(text[at:])).Decode(&rs); err != nil || len(rs) != 2 {
		t.Fatalf("%d results, %v: %s", len(rs), err, text)
	}
	return rs
}
