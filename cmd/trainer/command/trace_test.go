package command

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// traceModel has kernels of about a millisecond.
const traceModel = `
data: {source: digits}
model:
  layers:
    - flatten
    - {type: dense, name: a, units: 512, activation: relu}
    - {type: dense, name: b, units: 512, activation: relu}
    - {type: dense, name: c, units: 512, activation: relu}
    - {type: dense, name: d, units: 10}
train: {epochs: 1, batch: 64, microbatches: 4, reduction: tree}
optimizer: {name: adamw, lr: 0.01}
`

// traced is a span of trace.json, in microseconds.
type traced struct {
	Name, Cat, Ph  string
	PID, TID       int
	TS, Dur        float64
	Args           map[string]any
	device, stream string
}

func (s *traced) end() float64 { return s.TS + s.Dur }

// beside is the time that two spans share.
func (s *traced) beside(o *traced) float64 { return max(0, min(s.end(), o.end())-max(s.TS, o.TS)) }

// trace trains traceModel for some steps, and reads its trace and its report.
func trace(t *testing.T, steps int, args ...string) (spans []traced, r documented, dump string) {
	t.Helper()
	dir := t.TempDir()
	dump = filepath.Join(dir, "dump")
	if err := os.WriteFile(filepath.Join(dir, "model.yaml"), []byte(traceModel), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("trainer", append([]string{"train", "model.yaml", "--run", "run", "--dump", dump, "--quiet", "--max-steps", fmt.Sprint(steps)}, args...)...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	read := func(path string, into any) {
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var all struct{ TraceEvents []traced }
	read(filepath.Join(dump, "trace.json"), &all)
	read(filepath.Join(dir, "run", "report.json"), &r)
	devices, streams := map[int]string{}, map[int]string{}
	for _, e := range all.TraceEvents {
		switch name, _ := e.Args["name"].(string); e.Name {
		case "process_name":
			devices[e.PID] = name
		case "thread_name":
			streams[e.TID] = name
		}
	}
	for _, e := range all.TraceEvents {
		if e.Ph == "X" {
			e.device, e.stream = devices[e.PID], streams[e.TID]
			spans = append(spans, e)
		}
	}
	return spans, r, dump
}

// reduction is the name of a launch that adds partial sums.
var reduction = regexp.MustCompile(`^s\d+\.\w+[RS]\d+-\d+`)

// TestTraceShowsOverlap: the next batch comes in, devices copy to each other, and
// replicas reduce while kernels run.
func TestTraceShowsOverlap(t *testing.T) {
	testall.Long(t)
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("nothing overlaps on one processor")
	}
	t.Parallel()
	for _, devices := range []string{"cpu:2", "cpu:4"} {
		var spans []traced
		var dump string
		found := map[string]int{}
		for range 5 { // what else runs on the machine may keep two threads from running side by side
			spans, _, dump = trace(t, 12, "--devices", devices, "--set", "partition.replicas=2", "--set", "partition.shard=optimizer")
			for what, n := range overlaps(spans) {
				found[what] += n
			}
			if len(found) == 3 {
				break
			}
		}
		for _, what := range []string{"copy-in of a batch", "copy between devices", "reduction"} {
			if found[what] == 0 {
				t.Errorf("%s: no %s ran beside a kernel", devices, what)
			}
		}
		checkNames(t, spans)
		text, err := os.ReadFile(filepath.Join(dump, "step.svg"))
		if err != nil || !strings.Contains(string(text), "Measured: step ") || strings.Count(string(text), ">cpu:1<") != 2 {
			t.Errorf("%s: step.svg: %v\n%s", devices, err, text)
		}
	}
}

// overlaps counts what ran beside kernels.
func overlaps(spans []traced) map[string]int {
	found := map[string]int{}
	for i := range spans {
		s := &spans[i]
		batch := s.Cat == "copy-in" && s.Args["usage"] == "input"
		for j := range spans {
			k := &spans[j]
			if k.Cat != "kernel" || s.beside(k) == 0 {
				continue
			}
			switch same := k.device == s.device; {
			case batch && same && s.Args["step"].(float64) > 1:
				found["copy-in of a batch"]++
			case s.Cat == "peer" && same:
				found["copy between devices"]++
			case s.Cat == "launch" && reduction.MatchString(s.Name) && !same:
				found["reduction"]++
			}
		}
	}
	return found
}

// checkNames checks that spans are named after tasks and tensors, and that kernels lie
// within launches.
func checkNames(t *testing.T, spans []traced) {
	t.Helper()
	task := regexp.MustCompile(`^s\d+\.[FBWRSU]+\d`)
	for i := range spans {
		s := &spans[i]
		switch s.Cat {
		case "launch":
			if !task.MatchString(s.Name) || s.stream != "compute" || s.Args["step"] == nil {
				t.Errorf("launch %q of step %v on %s %s", s.Name, s.Args["step"], s.device, s.stream)
			}
		case "copy-in", "peer", "copy-out":
			if s.Name == s.Cat || s.stream != s.Cat || s.Args["bytes"] == nil {
				t.Errorf("%s %q of %v bytes on %s", s.Cat, s.Name, s.Args["bytes"], s.stream)
			}
		case "kernel":
			if !slices.ContainsFunc(spans, func(l traced) bool { return l.Cat == "launch" && within(s, &l) }) {
				t.Errorf("kernel %q on %s is not within a launch", s.Name, s.device)
			}
		case "step":
		default:
			t.Errorf("span %q of %q on %s %s", s.Name, s.Cat, s.device, s.stream)
		}
	}
}

// within reports whether a kernel is a part of a launch. Times are rounded.
func within(k, l *traced) bool {
	return k.TID == l.TID && k.TS >= l.TS-0.001 && k.end() <= l.end()+0.001
}

// TestTraceAgreesWithReport: the report's times of hidden and exposed copies are sums
// over the trace. Both count the same operations to the nanosecond; the report leaves
// out those that end between steps, which the lane of steps shows. A copy that ends
// within a microsecond of such a boundary may be counted on its other side.
func TestTraceAgreesWithReport(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	spans, r, _ := trace(t, 12, "--devices", "cpu:2")
	first, last, steps := math.Inf(1), 0.0, 0.0
	var launches []*traced
	for i := range spans {
		switch s := &spans[i]; s.Cat {
		case "step":
			first, last, steps = min(first, s.TS), max(last, s.end()), steps+1
		case "launch":
			launches = append(launches, s)
		}
	}
	hidden, exposed := 0.0, 0.0
	waited := map[*traced]float64{} // of launches, for copies that count as exposed
	for _, l := range launches {
		waited[l], _ = l.Args["waited"].(float64)
	}
	for i := range spans {
		s := &spans[i]
		if s.stream != "copy-in" && s.stream != "peer" && s.stream != "copy-out" || s.end() < first || s.end() > last {
			continue
		}
		beside := 0.0
		for _, l := range launches {
			if l.device == s.device {
				both := s.beside(l)
				waits := min(both, waited[l])
				waited[l] -= waits
				beside += both - waits
			}
		}
		hidden, exposed = hidden+beside, exposed+s.Dur-beside
	}
	const tolerance = 1e-3                // ms a step
	parallel := runtime.GOMAXPROCS(0) > 1 // or nothing hides a copy
	if h, e := hidden/steps/1e3, exposed/steps/1e3; steps != 12 || h == 0 && parallel || math.Abs(h-r.Copies.Hidden) > tolerance || math.Abs(e-r.Copies.Exposed) > tolerance {
		t.Errorf("%v steps, %v ms hidden and %v exposed in each; the report has %v and %v", steps, h, e, r.Copies.Hidden, r.Copies.Exposed)
	}
}
