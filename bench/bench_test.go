package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
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
func BenchmarkLlama(b *testing.B)    { benchmark(b, "llama-small") }
func BenchmarkResNet(b *testing.B)   { benchmark(b, "resnet-18") }
func BenchmarkViT(b *testing.B)      { benchmark(b, "vit-tiny") }
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
	if err := s.finish(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.step(ctx); err != nil {
			b.Fatal(err)
		}
		if err := s.finish(); err != nil {
			b.Fatal(err)
		}
	}
	perSecond := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(float64(s.w.Batch)*perSecond, "samples/s")
	b.ReportMetric(float64(Flops(s.graph))*perSecond/1e9, "Gflop/s")
}

func openSession(t testing.TB, name string) *training {
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
		if err := errors.Join(s.finish(), s.close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestRun measures mlp for a moment, on one device and on two stages.
func TestRun(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu:2"} {
		t.Run(devices, func(t *testing.T) {
			w, err := Lookup("mlp")
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), w, RunOptions{Seconds: 0.1, Threads: 2, Devices: devices, peakTime: time.Millisecond})
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

// TestSteps measures a number of steps: the weights are the same on one device
// and on two, and other ones after another step.
func TestSteps(t *testing.T) {
	hashes := map[string]string{}
	for name, o := range map[string]RunOptions{
		"one device": {Steps: 2}, "two": {Steps: 2, Devices: "cpu:2"}, "another step": {Steps: 3},
	} {
		o.Microbatches, o.Threads, o.peakTime = 4, 2, time.Millisecond
		r, err := Run(t.Context(), workloads[0], o)
		if err != nil {
			t.Fatal(err)
		}
		if hashes[name] = r.WeightsSHA256; r.Steps != o.Steps || r.Microbatches != 4 || r.Copies.BatchBytes != 128*(784+1)*4 {
			t.Errorf("%s: %d steps of %d microbatches, copies %+v", name, r.Steps, r.Microbatches, r.Copies)
		}
		if many := r.Copies.PeerBytes > 0; many != (name == "two") || r.Copies.LoadedBytes+r.Copies.SpilledBytes > 0 {
			t.Errorf("%s: copies %+v", name, r.Copies)
		}
	}
	if one := hashes["one device"]; len(one) != 64 || one != hashes["two"] || one == hashes["another step"] {
		t.Errorf("weights %v", hashes)
	}
}

// Looks are counted with their times, and leave the weights as they are.
func TestWatch(t *testing.T) {
	o := RunOptions{Steps: 20, Threads: 2, peakTime: time.Millisecond}
	plain, err := Run(t.Context(), workloads[0], o)
	if err != nil {
		t.Fatal(err)
	}
	o.Watch = time.Nanosecond
	r, err := Run(t.Context(), workloads[0], o)
	if err != nil {
		t.Fatal(err)
	}
	if r.WeightsSHA256 != plain.WeightsSHA256 || r.Loss != plain.Loss || plain.Looks != nil {
		t.Errorf("with looks, weights %s and loss %v; without, %s and %v, and looks %v", r.WeightsSHA256, r.Loss, plain.WeightsSHA256, plain.Loss, plain.Looks)
	}
	if l := r.Looks; l == nil || l.Count < 2 || l.Count > 20 || l.HostUS <= 0 || l.CopyUS <= 0 {
		t.Fatalf("looks %+v", r.Looks)
	}
	var text strings.Builder
	if err := WriteTable(&text, []Result{plain, r}, 0); err != nil || !regexp.MustCompile(`LOOKS .*\n *mlp +[0-9]+( +[0-9.]+ (µs|ms)){3}\n$`).MatchString(text.String()) {
		t.Errorf("%v in\n%s", err, text.String())
	}
}

func TestRunFails(t *testing.T) {
	mlp := workloads[0]
	for _, o := range []RunOptions{{Seconds: -1}, {Seconds: math.NaN()}, {Threads: -1}, {Seconds: math.Inf(1)}, {Threads: 4097}, {Devices: "cpu:x"}, {Devices: "cpu:0"}, {Steps: -1}, {Microbatches: -1}, {Microbatches: 3}, {Devices: "null"}, {Stages: -1}, {Schedule: "zb"}, {Reduction: "trees"}, {Shard: "weights"}, {Replicas: 2}, {Replicas: 2, Microbatches: 4}, {Replicas: -1}, {Watch: -1}, {Watch: 1, DeviceMemory: configs.Memory{Bytes: 1 << 30}}} {
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

// A measurement that is cancelled while a device hangs names what hangs.
func TestCancelNamesWhatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the device")
	}
	ctx, cancel := context.WithCancel(t.Context())
	hang := fault.Fault{Device: "cpu:0", Op: fault.Launch, N: 2, Kind: fault.Hang}
	time.AfterFunc(time.Second, cancel)
	_, err := Run(ctx, workloads[0], RunOptions{Devices: "cpu", Threads: 1, Seconds: 60, Timeout: time.Minute, Faults: []fault.Fault{hang}})
	if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "on cpu:0 has not ended 3s after the run was to end") {
		t.Errorf("cancelled while a launch hangs: %v", err)
	}
}

// A session ends within the operation under way, however many are queued.
func TestCancelSkipsQueuedWork(t *testing.T) {
	slow := fault.Fault{Device: "cpu:0", Op: fault.Launch, N: 1, Onward: true, Kind: fault.Slow}
	ctx, cancel := context.WithCancel(t.Context())
	s, err := open(ctx, workloads[0], RunOptions{Devices: "cpu", Threads: 1, OpByOp: true, Timeout: time.Minute, Faults: []fault.Fault{slow}})
	if err != nil {
		t.Fatal(err)
	}
	launches := 0
	s.rt.OnLaunch(func(executor.Launched) { launches++ })
	if err := s.step(ctx); err != nil { // it only queues
		t.Fatal(err)
	}
	began := time.Now()
	cancel()
	if err := s.close(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if took, all := time.Since(began), time.Duration(launches)*fault.SlowTime; launches < 20 || took > all/2 {
		t.Errorf("the session ended after %v; %d launches take %v", took, launches, all)
	}
}
