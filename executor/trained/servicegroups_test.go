package trained_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor/trained"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// onDevices trains a few steps of a model of text on one device, and serves it on two of its own, with faults.
func onDevices(t *testing.T, o berth.ServeOptions, faults ...string) (two, one *berth.Service, info *datasets.Info) {
	t.Helper()
	text := runtest.Tied(t)
	one, _, dir := serve(t, runtest.Parsed(t, text), nil, o)
	var list []fault.Fault
	for _, f := range faults {
		x, err := fault.Parse(f)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	c := runtest.Parsed(t, text, "devices=cpu:2")
	m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Faults: list})
	if err != nil {
		t.Fatal(err)
	}
	if two, err = m.Serve(t.Context(), o); err != nil {
		t.Fatal(errors.Join(err, m.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(two.Close(), m.Close()); err != nil && two.Err() == nil {
			t.Error(err)
		}
	})
	return two, one, m.Info()
}

// Two devices answer at the same time with the bits of one. Each has the weights once, however much it computes.
func TestServiceOnSeveralDevices(t *testing.T) {
	two, one, info := onDevices(t, berth.ServeOptions{Batch: 1, Texts: 1}, "cpu:0 launch 1 slow", "cpu:1 launch 1 slow")
	samples := randomSamples(rand.New(rand.NewPCG(1, 2)), info, 40)
	want, err := one.Predict(t.Context(), samples)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := two.Predict(t.Context(), samples); err != nil || !slices.Equal(got.Float32s(), want.Float32s()) {
			t.Fatalf("two devices give other answers; %v", err)
		}
	}
	st := two.Stats()
	if len(st.Groups) != 2 || st.Programs != one.Stats().Programs {
		t.Fatalf("%+v", st)
	}
	if a, b := st.Groups[0].Samples, st.Groups[1].Samples; a == 0 || b == 0 || a+b != 80 {
		t.Errorf("%+v", st)
	}
	for _, g := range st.Groups {
		if g.WeightBytes != one.Stats().WeightBytes || g.Lost != nil {
			t.Errorf("%+v, and one device has %d bytes of weights", g, one.Stats().WeightBytes)
		}
	}
	generate := func(s *berth.Service, emit func(berth.Piece) error) string {
		text := ""
		o := berth.GenerateOptions{Prompt: "7 b", Tokens: 8, Temperature: 1, Seed: 5, Slide: true}
		_, err := s.Generate(t.Context(), o, func(p berth.Piece) error {
			text += p.Text
			return emit(p)
		})
		if err != nil {
			t.Error(err)
		}
		return text
	}
	alone := generate(one, func(berth.Piece) error { return nil })
	var both, texts sync.WaitGroup // no text goes on before the other one has a token, and a device generates one at a time
	both.Add(2)
	for range 2 {
		texts.Go(func() {
			var begun sync.Once
			got := generate(two, func(berth.Piece) error {
				begun.Do(func() { both.Done(); both.Wait() })
				return nil
			})
			if got != alone {
				t.Errorf("%q, and on one device %q", got, alone)
			}
		})
	}
	texts.Wait()
	if g := two.Stats().Groups; g[0].Tokens != 8 || g[1].Tokens != 8 {
		t.Errorf("%+v", g)
	}
}

// After the loss of a device, the other one computes its samples and begins its text again, with the same bits. Once that
// one is lost too, so is the service.
func TestServiceGoesOnWithoutALostDevice(t *testing.T) {
	two, one, info := onDevices(t, berth.ServeOptions{Batch: 2}, "cpu:0 launch 1 lost", "cpu:1 launch 60 lost")
	samples := randomSamples(rand.New(rand.NewPCG(3, 4)), info, 8)
	want, err := one.Predict(t.Context(), samples)
	if err != nil {
		t.Fatal(err)
	}
	options := berth.GenerateOptions{Prompt: "7 b", Tokens: 5, Temperature: 1, Seed: 5, Slide: true}
	alone, _, _ := say(t, func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
		return one.Generate(t.Context(), o, emit)
	}, options)
	text, _, _ := say(t, func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
		return two.Generate(t.Context(), o, emit)
	}, options) // the first text goes to the first device
	if text != alone {
		t.Errorf("%q, and on one device %q", text, alone)
	}
	if got, err := two.Predict(t.Context(), samples); err != nil || !slices.Equal(got.Float32s(), want.Float32s()) {
		t.Errorf("other answers; %v", err)
	}
	g := two.Stats().Groups
	if g[0].Lost == nil || g[0].Samples != 0 || g[0].Tokens != 0 || g[1].Lost != nil || g[1].Samples != 8 || two.Err() != nil {
		t.Errorf("%+v, %v", g, two.Err())
	}
	if told := strings.Join(two.Warnings(), "\n"); !strings.Contains(told, "; going on without cpu:0, on cpu:1") {
		t.Errorf("it tells %q", told)
	}
	for began := time.Now(); err == nil && time.Since(began) < time.Minute; {
		_, err = two.Predict(t.Context(), samples)
	}
	if err == nil || two.Err() == nil {
		t.Errorf("both are lost: %v, %v", err, two.Err())
	}
}

// A text whose emit panics gives its place back.
func TestPlaceOfATextThatPanics(t *testing.T) {
	s, _, _ := serve(t, runtest.Parsed(t, runtest.Tied(t)), nil, berth.ServeOptions{Texts: 1})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, err := s.Generate(t.Context(), berth.GenerateOptions{Prompt: "7 b", Tokens: 3, Slide: true}, func(berth.Piece) error { panic("no reader") })
		t.Error(err)
	}()
	if n := s.Stats().Texts; n != 0 {
		t.Fatalf("%d texts are under way", n)
	}
	if _, err := s.Generate(t.Context(), berth.GenerateOptions{Prompt: "7 b", Tokens: 3, Slide: true}, unheard); err != nil {
		t.Error(err)
	}
}

// halfway is a context in which a checkpoint is deleted when the first of two devices has gotten all weights, of so many
// bytes, and the second one has none.
func halfway(t *testing.T, d *berth.Devices, bytes int64, again func()) (ctx context.Context, deleted *bool) {
	deleted = new(bool)
	weights := func(m berth.DeviceMemory) (bytes int64) {
		for i := range m.Tenants {
			bytes += m.Tenants[i].ByUsage[device.Weight.String()]
		}
		return bytes
	}
	return asked{t.Context(), func() {
		if m := d.Memory().Devices; !*deleted && weights(m[0]) >= bytes && weights(m[1]) == 0 {
			*deleted = true
			again()
		}
	}}, deleted
}

// onBoth predicts the same until both devices have answered, and gives the answers.
func onBoth(t *testing.T, s *berth.Service, samples *tensor.Dense) (want []float32) {
	t.Helper()
	both := func() bool { g := s.Stats().Groups; return g[0].Samples > 0 && g[1].Samples > 0 }
	for began := time.Now(); !both() || want == nil; {
		got, err := s.Predict(t.Context(), samples)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got.Float32s()
		}
		if !slices.Equal(got.Float32s(), want) {
			t.Fatal("the devices give different answers")
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("one device alone answers: %+v", s.Stats().Groups)
		}
	}
	return want
}

// Where a run that trains deletes the checkpoint after one device has loaded it, all devices answer with the next one. That is so
// for a run's weights, and for those of an adapter.
func TestDevicesHaveTheSameCheckpoint(t *testing.T) {
	for _, config := range []string{runtest.Everything, lora} {
		dir := t.TempDir()
		runtest.Train(t, runtest.Open(t, config), berth.TrainOptions{Dir: dir})
		again, d, c := writing(t, dir), runtest.OpenDevices(t, "cpu:2", 64<<20), runtest.Parsed(t, config, "devices.use=cpu:2")
		open := func(w berth.Weights) (m *berth.Trained, err error) {
			if w.Dir = dir; config != lora {
				return berth.OpenTrained(t.Context(), c, w, berth.TrainedOptions{Devices: d})
			}
			return berth.OpenAdapters(t.Context(), []berth.Adapter{{Name: "a", Config: c, Weights: w}}, berth.TrainedOptions{Devices: d})
		}
		bytes := int64(0)
		ask := func(ctx context.Context, w berth.Weights) (used berth.Used, answers []float32, err error) {
			m, err := open(w)
			if err != nil {
				t.Fatal(err)
			}
			s, err := m.Serve(ctx, berth.ServeOptions{Batch: 1})
			if err != nil {
				return used, nil, errors.Join(err, m.Close())
			}
			name := ""
			if config == lora {
				name = "a"
			}
			x, err := s.Adapter(name)
			if err != nil {
				t.Fatal(err)
			}
			answers = onBoth(t, x, randomSamples(rand.New(rand.NewPCG(1, 2)), x.Info(), 40))
			parts := s.Parts()
			bytes = s.Stats().WeightBytes / 2
			return parts[len(parts)-1].Used, answers, errors.Join(s.Close(), m.Close())
		}
		if _, _, err := ask(t.Context(), berth.Weights{}); err != nil {
			t.Fatal(err)
		}
		ctx, deleted := halfway(t, d, bytes, again)
		used, got, err := ask(ctx, berth.Weights{})
		if err != nil || !*deleted {
			t.Fatalf("deleted: %t, %v", *deleted, err)
		}
		now, want, err := ask(t.Context(), berth.Weights{ID: used.ID})
		if err != nil || now.ID != used.ID || !slices.Equal(got, want) {
			t.Errorf("they answer with %+v, and not with its weights; %v", used, err)
		}
		ctx, _ = halfway(t, d, bytes, again)
		if _, _, err := ask(ctx, berth.Weights{ID: used.ID}); !errors.Is(err, checkpoint.ErrDeleted) {
			t.Errorf("a checkpoint that was asked for by its ID: %v", err)
		}
	}
}

// wide is a model whose first layer takes most of its memory.
const wide = `
name: wide
data: {source: digits, split: 0.2}
model: {layers: [flatten, {type: dense, units: 1024, activation: relu}, {type: dense, units: 10}]}
train: {epochs: 1, batch: 64}
`

// waiting waits until so many calls wait for memory of devices.
func waiting(t *testing.T, calls int) {
	t.Helper()
	stacks := make([]byte, 4<<20)
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		n := 0
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if head, _, _ := strings.Cut(stack, "\n"); strings.Contains(head, "[select") && strings.Contains(stack, "admission.(*Floors).Reserve(") {
				n++
			}
		}
		if n == calls {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%d calls wait, expected %d", n, calls)
		}
	}
}

// A service that waits for the memory of one device holds none of another, for which somebody may wait who is before it
// in the line for that one.
func TestServiceWaitsForDevicesWithoutHoldingOthers(t *testing.T) {
	c, dir := runtest.Parsed(t, wide), t.TempDir()
	runtest.Train(t, runtest.Open(t, wide), berth.TrainOptions{Dir: dir})
	open := func(d *berth.Devices, use ...device.ID) *berth.Trained {
		m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Devices: d, Use: use})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		return m
	}
	serve := func(ctx context.Context, m *berth.Trained, o berth.ServeOptions) *berth.Service {
		s, err := m.Serve(ctx, o)
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	large := runtest.OpenDevices(t, "cpu:1", 64<<20)
	serve(t.Context(), open(large), berth.ServeOptions{})
	takes := large.Memory().Devices[0].Tenants[0]
	d := runtest.OpenDevices(t, "cpu:2", takes.Peak+takes.Floor/2)
	first := serve(t.Context(), open(d, "cpu:0"), berth.ServeOptions{AtOnce: true})
	both, other := open(d), open(d)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var all sync.WaitGroup
	all.Go(func() {
		if s := serve(ctx, both, berth.ServeOptions{}); s != nil && len(s.Stats().Groups) != 2 {
			t.Errorf("%+v", s.Stats())
		}
	})
	waiting(t, 1)
	all.Go(func() { // needs both devices
		if _, err := other.Eval(ctx); err != nil {
			t.Error(err)
		}
	})
	waiting(t, 2)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
}

// All devices together have the host memory that the config allows, also those of different kinds.
func TestDevicesDivideHostMemory(t *testing.T) {
	if devs, err := device.Open("opencl", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20}); err != nil {
		testall.NoOpenCL(t, err)
	} else if err := devs[0].Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, wide), berth.TrainOptions{Dir: dir})
	c := runtest.Parsed(t, wide, "devices.use=cpu:2,opencl", "devices.host_memory=96MiB")
	m, err := trained.Open(t.Context(), c, rundir.Weights{Dir: dir}, trained.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Serve(t.Context(), trained.ServeOptions{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.HostBounds(); !slices.Equal(got, []int64{32 << 20, 32 << 20, 32 << 20}) {
		t.Errorf("the devices may have %d bytes of host memory each", got)
	}
	if err := errors.Join(s.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}
