package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/graph"
)

// TestMain makes benchmarks run a single step under -short.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		if err := flag.Set("test.benchtime", "1x"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func BenchmarkMLP(b *testing.B)      { benchmark(b, "mlp") }
func BenchmarkCNN(b *testing.B)      { benchmark(b, "cnn") }
func BenchmarkGPTNano(b *testing.B)  { benchmark(b, "gpt-nano") }
func BenchmarkGPTSmall(b *testing.B) { benchmark(b, "gpt-small") }
func BenchmarkGPT2(b *testing.B)     { benchmark(b, "gpt2") }

// benchmark times steps of a workload that is warm; under -short it warms up
// with one step only.
func benchmark(b *testing.B, name string) {
	ctx := b.Context()
	s := openSession(b, name)
	warm := warmSteps
	if testing.Short() {
		warm = 1
	}
	for range warm {
		if err := s.step(ctx); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.finish(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.step(ctx); err != nil {
			b.Fatal(err)
		}
		if err := s.finish(ctx); err != nil {
			b.Fatal(err)
		}
	}
	perSecond := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(float64(s.w.Batch)*perSecond, "samples/s")
	b.ReportMetric(float64(Flops(s.graph))*perSecond/1e9, "Gflop/s")
}

func openSession(t testing.TB, name string) *session {
	t.Helper()
	w, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context(), w, RunOptions{Devices: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.finish(context.Background()), s.close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestGraphs checks every workload's size and arithmetic against formulas that
// know nothing of graphs.
func TestGraphs(t *testing.T) {
	gpt := func(layers, width, context, vocab int64) int64 {
		block := 2*2*width + (3*width*width + 3*width) + (width*width + width) + (4*width*width + 4*width) + (4*width*width + width)
		return vocab*width + context*width + layers*block + 2*width
	}
	// gptFlops: each weight of a product meets each token once forward and
	// twice backward; six products over the scores below the diagonal.
	gptFlops := func(layers, width, positions, batch, vocab int64) int64 {
		weights := layers*12*width*width + vocab*width
		return 6*weights*batch*positions + layers*6*batch*width*positions*(positions+1)
	}
	// The first layer of mlp and cnn has no gradient of its input.
	mlp := 2*128*3*(784*512+512*256+256*10) - int64(2*128*784*512)
	conv1, conv2 := 9*32*28*28, 32*9*64*14*14
	cnn := int64(2 * 64 * (2*conv1 + 3*(conv2+64*7*7*128+128*10)))
	want := map[string]struct{ parameters, flops int64 }{
		"mlp":       {784*512 + 512 + 512*256 + 256 + 256*10 + 10, mlp},
		"cnn":       {9*32 + 32 + 32*9*64 + 64 + 64*7*7*128 + 128 + 128*10 + 10, cnn},
		"gpt-nano":  {gpt(4, 128, 64, 65), gptFlops(4, 128, 64, 12, 65)},
		"gpt-small": {gpt(6, 384, 256, 65), gptFlops(6, 384, 256, 8, 65)},
		"gpt2":      {124_439_808, gptFlops(12, 768, 64, 4, 50257)},
	}
	if got := len(Workloads()); got != len(want) {
		t.Errorf("%d workloads, want %d", got, len(want))
	}
	for _, w := range Workloads() {
		g, err := w.Graph(false)
		if err != nil {
			t.Errorf("%s: %v", w.Name, err)
			continue
		}
		var parameters int64
		for _, v := range g.Vars {
			if v.Role == graph.Parameter {
				parameters += int64(v.Meta.Elems())
			}
		}
		if x := want[w.Name]; parameters != x.parameters || w.Parameters != x.parameters {
			t.Errorf("%s has %d parameters and says %d, want %d", w.Name, parameters, w.Parameters, x.parameters)
		}
		if x := want[w.Name]; Flops(g) != x.flops {
			t.Errorf("%s: %d flops a step, want %d", w.Name, Flops(g), x.flops)
		}
	}
	if g, _ := workloads[4].Graph(false); g.Find("wpe.weight").Meta.Shape[0] != 1024 {
		t.Error("gpt2 should keep all 1024 positions")
	}
}

// TestRun measures mlp for a moment, on one device and on two stages.
func TestRun(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu:2"} {
		t.Run(devices, func(t *testing.T) {
			w, err := Lookup("mlp")
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), w, RunOptions{Seconds: 0.1, Threads: 2, Devices: devices})
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, r)
		})
	}
}

func checkResult(t *testing.T, r Result) {
	t.Helper()
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
	for what, ok := range map[string]bool{
		"name":         r.Name == "mlp" && r.Batch == 128 && r.Parameters == 535_818,
		"steps":        r.Steps >= 1,
		"order":        0 < r.StepMS.Min && r.StepMS.Min <= r.StepMS.Median && r.StepMS.Median <= r.StepMS.P95,
		"samples":      near(r.SamplesPerS, 128e3/r.StepMS.Median),
		"tokens":       r.TokensPerS == 0,
		"gflops":       near(r.Gflops, float64(r.FlopsPerStep)/r.StepMS.Median/1e6),
		"peak":         r.PeakGflops > 0 && r.PeakSide >= peakStart && r.PeakSide <= peakSide,
		"fraction":     near(r.PeakFraction, r.Gflops/r.PeakGflops),
		"loss":         r.Loss > 1 && r.Loss < 4, // ln 10 and somewhat more for random classes
		"weights":      r.Arena.ByUsage["weight"] >= 4*r.Parameters,
		"optimizer":    r.Arena.ByUsage["opt_state"] >= 8*r.Parameters,
		"arena":        r.Arena.Total >= 4*4*r.Parameters,
		"threads":      r.Threads == 2,
		"allocs":       r.AllocsPerStep >= 0 && r.AllocsPerStep < 1e4,
		"machine":      r.Machine.CPU != "" && r.Machine.Cores > 0 && strings.HasPrefix(r.Machine.Go, "go1."),
		"resident":     r.ResidentBytes == 0 || r.ResidentBytes > r.Arena.Total/2,
		"residentPeak": r.PeakResidentBytes >= r.ResidentBytes,
	} {
		if !ok {
			t.Errorf("%s is not plausible in %+v", what, r)
		}
	}
}

func TestPeak(t *testing.T) {
	p, err := measurePeak(t.Context(), RunOptions{Devices: "cpu", Threads: 1})
	if err != nil || p.gflops <= 0 || p.side < peakStart || p.side > peakSide {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestRunFails(t *testing.T) {
	mlp := workloads[0]
	for _, o := range []RunOptions{{Seconds: -1}, {Seconds: math.NaN()}, {Threads: -1}, {Seconds: math.Inf(1)}, {Threads: 4097}, {Devices: "cpu:x"}, {Devices: "cpu:0"}, {Devices: "null"}} {
		if _, err := Run(t.Context(), mlp, o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v, want ErrOptions", o, err)
		}
	}
	if _, err := Run(t.Context(), mlp, RunOptions{Devices: "abacus"}); err == nil || !strings.Contains(err.Error(), "cpu") {
		t.Errorf("%v, want an error that lists the kinds", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, mlp, RunOptions{Seconds: 60}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want a cancelled run", err)
	}
	if _, err := Lookup("nope"); !errors.Is(err, ErrWorkload) {
		t.Errorf("%v, want ErrWorkload", err)
	}
}

func TestStepMS(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(i+1)*time.Millisecond)
	}
	if got, want := newStepMS(times), (StepMS{Median: 51, P95: 96, Min: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := newStepMS(times[:1]), (StepMS{1, 1, 1}); got != want {
		t.Errorf("%+v of one step, want %+v", got, want)
	}
}

func TestOutput(t *testing.T) {
	r := Result{Name: "gpt-nano", Steps: 7, StepMS: StepMS{Median: 12.345}, TokensPerS: 768, PeakFraction: 0.5, Threads: 1, Devices: []string{"cpu:0"}}
	var text bytes.Buffer
	if err := WriteTable(&text, []Result{r, {Name: "mlp"}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gpt-nano", "12.35", "768", "50%", "1 thread on cpu:0"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	text.Reset()
	if err := WriteTable(&text, nil); err != nil || text.Len() > 0 {
		t.Errorf("%v and %q for no results", err, &text)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"step_ms":{"median":12.345`, `"allocs_per_step":0`, `"arena_peak_bytes":`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
}

func ExampleLookup() {
	w, err := Lookup("gpt2")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.About)
	fmt.Println(w.Parameters, "parameters, batch", w.Batch)
	// Output:
	// gpt of 12 layers, 12 heads, width 768, 64 of 1024 positions, vocabulary 50257
	// 124439808 parameters, batch 4
}
