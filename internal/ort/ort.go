// Package ort runs ONNX models with ONNX Runtime, in tests. It is npm's onnxruntime-node, which
// .ci/setup installs in testdata; where it is missing, tests skip, or fail with TEST_ONNX=required,
// as in .ci/run.
package ort

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/berth-ml/berth/engine/onnx"
)

// Tensor is a value that goes in or comes out. Data are float64s or strings.
type Tensor struct {
	Type string `json:"type"` // float32, float64, int32, int64 or string
	Dims []int  `json:"dims"`
	Data []any  `json:"data"`
}

// Job is a run of the model in a file, with its inputs by name.
type Job struct {
	Model string            `json:"model"`
	Feeds map[string]Tensor `json:"feeds"`
}

// Result is a job's outputs by name, or why it has none.
type Result struct {
	Outputs map[string]Tensor
	Err     error
}

// Numbers is a tensor of numbers.
func Numbers[T float32 | float64 | int32 | int64](kind string, values []T, dims ...int) Tensor {
	t := Tensor{kind, dims, make([]any, len(values))}
	for i, v := range values {
		if t.Data[i] = any(float64(v)); float64(v) != float64(v) {
			t.Data[i] = "NaN"
		}
	}
	return t
}

// Texts is a tensor of texts.
func Texts(values []string, dims ...int) Tensor {
	t := Tensor{"string", dims, make([]any, len(values))}
	for i, v := range values {
		t.Data[i] = v
	}
	return t
}

// Floats are the numbers of a tensor.
func (t Tensor) Floats(tb testing.TB) []float64 {
	tb.Helper()
	out := make([]float64, len(t.Data))
	for i, v := range t.Data {
		switch v := v.(type) {
		case float64:
			out[i] = v
		case string:
			x, err := strconv.ParseFloat(v, 64)
			if err != nil {
				tb.Fatalf("element %d is %q, and no number", i, v)
			}
			out[i] = x
		}
	}
	return out
}

// folder is the folder of the script.
func folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "testdata")
}

// Need ends a test where ONNX Runtime is not installed: it skips, or fails where the
// environment has TEST_ONNX=required.
func Need(tb testing.TB) {
	tb.Helper()
	_, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(folder(), "node_modules", "onnxruntime-node", "package.json"))
	}
	switch {
	case err == nil:
	case os.Getenv("TEST_ONNX") == "required":
		tb.Fatalf("%v: .ci/setup installs what the tests need", err)
	default:
		tb.Skip(err)
	}
}

// Run runs jobs, one after the other, in one process.
func Run(tb testing.TB, jobs []Job) []Result {
	tb.Helper()
	Need(tb)
	in, err := json.Marshal(jobs)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), "node", filepath.Join(folder(), "run.js"))
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("node: %v\n%s", err, &stderr)
	}
	var raw []map[string]json.RawMessage
	if err := json.Unmarshal(out, &raw); err != nil {
		tb.Fatalf("%v in %.200s", err, out)
	}
	results := make([]Result, len(raw))
	for i, outputs := range raw {
		if results[i], err = result(outputs); err != nil {
			tb.Fatal(err)
		}
	}
	return results
}

// result reads what a job gave.
func result(outputs map[string]json.RawMessage) (r Result, err error) {
	if text, failed := outputs["error"]; failed {
		return Result{Err: fmt.Errorf("ONNX Runtime: %s", text)}, nil
	}
	r.Outputs = map[string]Tensor{}
	for name, text := range outputs {
		var t Tensor
		if err := json.Unmarshal(text, &t); err != nil {
			return r, err
		}
		r.Outputs[name] = t
	}
	return r, nil
}

// Check checks a graph on its own: a name has one value, a node reads values from before it, and
// no constant and no node is in vain.
func Check(tb testing.TB, g onnx.Graph) {
	tb.Helper()
	used := map[string]bool{} // by the names that there are so far
	add := func(name string) {
		if _, known := used[name]; known || name == "" {
			tb.Errorf("%q is the name of two values, or none", name)
		}
		used[name] = false
	}
	read := func(what, name string) {
		if _, known := used[name]; !known {
			tb.Errorf("%s reads %q, which is not there yet", what, name)
		}
		used[name] = true
	}
	for _, v := range g.Inputs {
		add(v.Name)
	}
	for i := range g.Initializers {
		add(g.Initializers[i].Name)
	}
	for _, n := range g.Nodes {
		for _, name := range n.In {
			read(n.Op, name)
		}
		for _, name := range n.Out {
			add(name)
		}
	}
	for _, v := range g.Outputs {
		read("the model", v.Name)
	}
	for name, yes := range used {
		if !yes {
			tb.Errorf("nothing reads %q", name)
		}
	}
}
