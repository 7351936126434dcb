package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/svg/svgtest"
)

// fake is a program that always takes as long.
func fake(family, variant string, does func(string) bool, ms float64, order *[]string) program {
	return program{family: family, variant: variant, does: does, run: func(context.Context, string) (sample, error) {
		*order = append(*order, family+variant)
		s := sample{Version: family + " 1.0", Steps: 9, StepMS: stepMS{Median: ms, Min: ms / 2}, PeakResidentBytes: int64(ms) << 20}
		if family == berthName {
			s.FlopsPerStep, s.PeakGflops, s.Machine = 1e9, 500, machine{CPU: "abacus", Cores: 2, Commit: "c0ffee"}
		}
		return s, nil
	}}
}

// someReport is two rounds of mlp and gpt2.
func someReport(t *testing.T) (report, []string) {
	t.Helper()
	var order []string
	ts := turns{log: io.Discard, options: options{rounds: 2, threads: 2, seconds: 1, lock: filepath.Join(t.TempDir(), "lock")}}
	ts.programs = []program{
		fake(berthName, "", every, 4, &order),
		fake(torchName, "slow", every, 20, &order),
		fake(torchName, "fast", every, 10, &order),
		fake(llmcName, "", only("gpt2"), 40, &order),
	}
	for round := range ts.rounds {
		for _, w := range []string{"mlp", "gpt2"} {
			if err := ts.all(t.Context(), w, round); err != nil {
				t.Fatal(err)
			}
		}
	}
	ts.root = t.TempDir() // no checkout
	return newReport(ts), order
}

// The tables of Berth alone have a line for each way that was measured, and go between
// their marks of performance.md.
func TestOwnTables(t *testing.T) {
	var r report
	for _, clients := range clientCounts {
		s := served{RequestsPerS: 1234, SamplesPerBatch: 8}
		s.LatencyMS.Median, s.LatencyMS.P99 = 1, 3
		r.Turns = append(r.Turns, turn{Workload: "mlp", Family: berthName, Variant: clients, sample: sample{Served: &s}})
	}
	if want := "\n| mlp | 1.00 | 3.00 | 1234 | 1.00 | 3.00 | 8.0 |\n"; !strings.HasSuffix(r.serveTable(), want) {
		t.Errorf("%s\nwant at the end %s", r.serveTable(), want)
	}
	r.Turns = nil
	for i, share := range memoryShares {
		s := sample{StepMS: stepMS{Median: float64(10 + i), Min: 8}, Copies: copies{LoadedBytes: int64(i) << 20, HiddenMS: 0.5}}
		r.Turns = append(r.Turns, turn{Workload: "gpt-nano", Family: berthName, Variant: share, sample: s})
	}
	if want := "\n| gpt-nano | 40% | 12.0 | 8.00 | 1.20× | 1.00× | 2.0 | 0.50 | 0.00 |\n"; !strings.HasSuffix(r.spillTable(), want) {
		t.Errorf("%s\nwant at the end %s", r.spillTable(), want)
	}
	page := filepath.Join(t.TempDir(), "performance.md")
	text, err := os.ReadFile("../../docs/performance.md")
	if err == nil {
		err = os.WriteFile(page, text, 0o644)
	}
	for _, mark := range []string{serveBegin, spillBegin} {
		if err == nil {
			err = replaceIn(page, mark, "a table\n")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(page); err != nil || strings.Count(string(text), "a table\n") != 2 {
		t.Errorf("%v: %s", err, text)
	}
}

func TestTurns(t *testing.T) {
	_, order := someReport(t)
	want := []string{
		"Berth", "PyTorchslow", "PyTorchfast", "Berth", "PyTorchslow", "PyTorchfast", "llm.c",
		"PyTorchfast", "PyTorchslow", "Berth", "llm.c", "PyTorchfast", "PyTorchslow", "Berth",
	}
	if !slices.Equal(order, want) {
		t.Errorf("turns were %v, want %v", order, want)
	}
}

func TestFailures(t *testing.T) {
	broken := errors.New("broken")
	fail := func(context.Context, string) (sample, error) { return sample{}, broken }
	var order []string
	var log strings.Builder
	ts := turns{log: &log, programs: []program{
		fake(berthName, "", every, 4, &order),
		{family: torchName, does: every, run: fail},
		fake(llmcName, "", every, 4, &order),
	}}
	if err := ts.all(t.Context(), "mlp", 0); err != nil || len(ts.measured) != 2 || !strings.Contains(log.String(), "PyTorch failed: broken") {
		t.Errorf("%v, %d measured, said %q", err, len(ts.measured), log.String())
	}
	ts.programs[0].run = fail
	if err := ts.all(t.Context(), "mlp", 0); !errors.Is(err, broken) || !strings.Contains(err.Error(), "mlp of Berth") {
		t.Errorf("%v does not say whose turn failed", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ts.programs = ts.programs[2:]
	if err := ts.all(ctx, "mlp", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v after an interrupt", err)
	}
}

func TestTables(t *testing.T) {
	r, _ := someReport(t)
	var b strings.Builder
	if err := r.markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"abacus, 2 cores, 2 threads, , commit c0ffee. Berth 1.0, PyTorch 1.0, llm.c 1.0. Rounds: 2, of 1 s each.",
		"| **mlp** | **Berth** | **4.00** | 2.00 | | | |",
		"| | PyTorch, fast | 10.0 | 5.00 | 2.5× | 2.5× | ≥ 2.5× |",
		"| | llm.c | 40.0 | 20.0 | 10.0× | 10.0× | ≥ 4× |",
		"| mlp | 1.00 | 500 | 2.00 | 4.00 | 50% |  | 5.0× |  |",
		"| gpt2 | 1.00 | 500 | 2.00 | 4.00 | 50% | ≥ 65% | 5.0× |  |",
		"| gpt2 | 4 | 10 |  |  | 40 | 0.40× | ≤ 0.75× |",
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("no line\n%s\nin\n%s", line, b.String())
		}
	}
	if strings.Contains(b.String(), "slow") {
		t.Errorf("a variant that is not the fastest is in\n%s", b.String())
	}
}

// TestWrite reads back what was written, and writes it again.
func TestWrite(t *testing.T) {
	r, _ := someReport(t)
	dir := t.TempDir()
	page := filepath.Join(dir, "performance.md")
	if err := r.write(dir); err == nil {
		t.Error("wrote into a page that is not there")
	}
	if err := os.WriteFile(page, []byte("no marks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.write(dir); err == nil || !strings.Contains(err.Error(), tablesBegin) {
		t.Errorf("%v does not name the mark", err)
	}
	if err := os.WriteFile(page, []byte("before\n"+tablesBegin+"\nold\n"+tablesEnd+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(first)
	if !strings.HasPrefix(text, "before\n") || !strings.HasSuffix(text, "\nafter\n") || strings.Contains(text, "old") || !strings.Contains(text, "**mlp**") {
		t.Errorf("page is\n%s", text)
	}
	var log bytes.Buffer
	if err := run(t.Context(), options{from: filepath.Join(dir, "performance.json"), docs: dir}, &log); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(page); err != nil || !bytes.Equal(first, again) {
		t.Errorf("%v: not the same from the written results", err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "performance.svg"))
	if err != nil {
		t.Fatal(err)
	}
	svgtest.Check(t, string(svg))
}

func TestReadLLMC(t *testing.T) {
	const text = "[GPT-2]\nval loss 10.9\nstep 0: train loss 10.9 (took 9000.5 ms)\nstep 1: train loss 10.8 (took 8000 ms)\n" +
		"step 2: train loss 10.7 (took 30 ms)\nval loss 10.9\nstep 3: train loss 10.6 (took 20.5 ms)\nstep 4: train loss 10.5 (took 1 ms)\n"
	for enough, want := range map[float64][]float64{10: {30}, 50: {30, 20.5}, 1e9: {30, 20.5, 1}} {
		if got, loss := readLLMC(strings.NewReader(text), enough); !slices.Equal(got, want) || loss > 10.7 {
			t.Errorf("%v and loss %v, want %v", got, loss, want)
		}
	}
}

func TestWriteHeaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	item := func(b []byte) []byte { return append(b, 'x', 'y') }
	if err := writeHeaded(file, []int32{7, 8}, 3, item); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 1024)
	binary.LittleEndian.PutUint32(want, 7)
	binary.LittleEndian.PutUint32(want[4:], 8)
	if want = append(want, "xyxyxy"...); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d, or they differ", len(got), len(want))
	}
}

func TestVariants(t *testing.T) {
	for _, v := range variants(false, "") {
		for _, e := range v.env {
			if strings.Contains(e, "SKYLAKEX") || strings.Contains(e, "avx512") || strings.Contains(e, "LD_LIBRARY_PATH") {
				t.Errorf("%s has %s", v.name, e)
			}
		}
	}
	vs := variants(true, "/lib/omp")
	last := vs[len(vs)-1]
	if len(vs) != 4 || vs[0].env != nil || !slices.Contains(last.env, "LD_LIBRARY_PATH=/lib/omp") {
		t.Errorf("%+v", vs)
	}
	if slices.Contains(vs[2].env, "ATEN_CPU_CAPABILITY=avx512") {
		t.Error("variants share memory")
	}
}

func TestMissing(t *testing.T) {
	if _, err := findPython(t.Context(), filepath.Join(t.TempDir(), "python")); err == nil || !strings.Contains(err.Error(), "python3-torch") {
		t.Errorf("%v does not say how to get PyTorch", err)
	}
	for _, o := range []options{{}, {llmc: filepath.Join(t.TempDir(), "train_gpt2")}} {
		if _, err := newLLMC(o, t.TempDir()); err == nil || !strings.Contains(err.Error(), "-llmc") {
			t.Errorf("%v does not say how to give llm.c", err)
		}
	}
}

func TestWorkloads(t *testing.T) {
	o := options{rounds: 1, seconds: 1, threads: 1}
	if names, err := o.workloads(); err != nil || len(names) != 7 {
		t.Errorf("%v, %v", names, err)
	}
	o.only = "mlp,gpt2"
	if names, err := o.workloads(); err != nil || !slices.Equal(names, []string{"mlp", "gpt2"}) {
		t.Errorf("%v, %v", names, err)
	}
	o.only = "mlp,nope"
	if _, err := o.workloads(); err == nil || !strings.Contains(err.Error(), "gpt-nano") {
		t.Errorf("%v does not list the workloads", err)
	}
	if _, err := (options{}).workloads(); err == nil {
		t.Error("no rounds are accepted")
	}
}

func TestDisturbed(t *testing.T) {
	r := report{Turns: []turn{{Others: 0.01}, {Others: 0.4}, {Others: 0.3}}}
	if got := r.disturbed(); !strings.Contains(got, "30%") {
		t.Errorf("%q does not warn", got)
	}
	r.Turns = r.Turns[:1]
	if got := r.disturbed(); got != "" {
		t.Errorf("%q warns of nothing", got)
	}
}
