package trained_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// serve trains a few steps, and opens a service of the result, on devices of its own or on
// shared ones.
func serve(t *testing.T, c *configs.Config, d *berth.Devices, o berth.ServeOptions) (*berth.Service, *datasets.Info, string) {
	t.Helper()
	dir := t.TempDir()
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	runtest.Train(t, r, berth.TrainOptions{Dir: dir, MaxSteps: 3})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var m *berth.Trained
	if d == nil {
		m, err = berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	} else {
		m, err = berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Devices: d})
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Serve(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, m.Info(), dir
}

// randomSamples is n samples for a model.
func randomSamples(rnd *rand.Rand, info *datasets.Info, n int) *tensor.Dense {
	in := info.Inputs[0].Meta
	dims := append([]int{n}, in.Shape...)
	if in.DType == shape.Int32 {
		ids := make([]int32, n*in.Elems())
		for i := range ids {
			ids[i] = rnd.Int32N(int32(info.Tokens))
		}
		return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(ids))
	}
	x := make([]float32, n*in.Elems())
	for i := range x {
		x[i] = rnd.Float32()
	}
	return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(x))
}

// An answer is the same to the bit whatever else is in its batch: for all kinds of layers,
// formats of numbers, and devices.
func TestAnswersDoNotDependOnTheirBatch(t *testing.T) {
	all := [][]string{{runtest.Everything}, {runtest.Tied(t), "devices=cpu:2"}, {runtest.Everything, "precision=bf16"}, {runtest.Everything, "devices=cpu:2"}, {runtest.Tied(t)}, {runtest.Tied(t), "devices.op_by_op=plain"}}
	for _, x := range all[:testall.Or(2, len(all))] {
		s, info, _ := serve(t, runtest.Parsed(t, x[0], x[1:]...), nil, berth.ServeOptions{Batch: 24})
		rnd := rand.New(rand.NewPCG(7, 7))
		const requests = 12
		asked, want := make([]*tensor.Dense, requests), make([][]float32, requests)
		for i := range asked {
			asked[i] = randomSamples(rnd, info, 1+i%5)
			out, err := s.Predict(t.Context(), asked[i])
			if err != nil {
				t.Fatal(err)
			}
			want[i] = out.Float32s()
		}
		var clients sync.WaitGroup
		for range testall.Or(3, 20) {
			for i := range asked {
				clients.Go(func() {
					out, err := s.Predict(t.Context(), asked[i])
					if err != nil || !slices.Equal(out.Float32s(), want[i]) {
						t.Errorf("%v: request %d differs in company; %v", x[1:], i, err)
					}
				})
			}
		}
		clients.Wait()
		if st := s.Stats(); st.Batches[16]+st.Batches[24] == 0 || st.Programs != 6 {
			t.Errorf("%v: requests were not put together: %+v", x[1:], st)
		}
	}
}

// A service has its weights once, however many requests of whatever kind there are; texts
// at once are those that come one by one.
func TestServiceHasItsWeightsOnce(t *testing.T) {
	c := runtest.Parsed(t, runtest.Tied(t))
	s, info, _ := serve(t, c, nil, berth.ServeOptions{Texts: 3})
	weights := s.Stats().WeightBytes
	if weights == 0 {
		t.Fatal("no weights were copied in")
	}
	options := func(i int) berth.GenerateOptions {
		return berth.GenerateOptions{Prompt: "7 bot"[:1+i%5], Tokens: 12, Temperature: 1, Seed: uint64(i), Slide: true}
	}
	generate := func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
		return s.Generate(t.Context(), o, emit)
	}
	var want []string
	for i := range 6 {
		text, _, _ := say(t, generate, options(i))
		want = append(want, text)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	samples := randomSamples(rnd, info, 3)
	var clients sync.WaitGroup
	for i := range want {
		clients.Go(func() {
			text := ""
			if _, err := s.Generate(t.Context(), options(i), func(p berth.Piece) error { text += p.Text; return nil }); err != nil || text != want[i] {
				t.Errorf("text %d is %q, alone %q; %v", i, text, want[i], err)
			}
			if _, err := s.Answers(t.Context(), samples); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if st := s.Stats(); st.WeightBytes != weights || st.Texts != 0 || st.WaitingTexts != 0 || st.Programs < 6+3 { // of batches, a prompt, a token, and tokens of several texts
		t.Errorf("%d bytes of weights were copied in, at first %d: %+v", st.WeightBytes, weights, st)
	}
	if _, err := s.Generate(t.Context(), berth.GenerateOptions{Prompt: "a", Context: 3}, unheard); !errors.Is(err, berth.ErrOptions) {
		t.Errorf("another context: %v", err)
	}
	bad := tensor.New(tensor.WithShape(1, 8), tensor.WithBacking([]int32{0, 1, 2, 3, 4, 5, 6, 1 << 20}))
	if _, err := s.Answers(t.Context(), bad); !errors.Is(err, berth.ErrOptions) {
		t.Errorf("a token that there is not: %v", err)
	}
}

// A service answers during a training on the same devices, which ends with the weights
// that it has alone.
func TestAnswersBesideATraining(t *testing.T) {
	c := runtest.Parsed(t, runtest.Everything, "train.epochs=2")
	alone := runtest.Train(t, runtest.Open(t, runtest.Everything, "train.epochs=2"), berth.TrainOptions{})
	d := runtest.OpenDevices(t, "cpu", 64<<20)
	s, info, _ := serve(t, c, d, berth.ServeOptions{})
	samples := randomSamples(rand.New(rand.NewPCG(3, 4)), info, 4)
	want, err := s.Predict(t.Context(), samples)
	if err != nil {
		t.Fatal(err)
	}
	training, ended := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	answered := make([]int, 2)
	for i := range answered {
		clients.Go(func() {
			for training.Err() == nil {
				out, err := s.Predict(t.Context(), samples)
				if err != nil || !slices.Equal(out.Float32s(), want.Float32s()) {
					t.Errorf("during a training: %v", err)
					return
				}
				answered[i]++
			}
		})
	}
	rep := runtest.Train(t, runtest.OpenOn(t, d, c), berth.TrainOptions{AssertResident: true})
	ended()
	clients.Wait()
	if rep.WeightsSHA256 != alone.WeightsSHA256 || answered[0]+answered[1] == 0 {
		t.Errorf("weights %s, alone %s; %v answers", rep.WeightsSHA256, alone.WeightsSHA256, answered)
	}
}

// A request beyond the queue is refused at once, and Close ends those that wait.
func TestServiceRefusesWhatItCannotQueue(t *testing.T) {
	s, info, _ := serve(t, runtest.Parsed(t, runtest.Everything), nil, berth.ServeOptions{Batch: 1, Queue: 4})
	big := randomSamples(rand.New(rand.NewPCG(3, 4)), info, 4000)
	one := randomSamples(rand.New(rand.NewPCG(3, 4)), info, 1)
	long := make(chan error)
	go func() {
		_, err := s.Predict(t.Context(), big)
		long <- err
	}()
	for began := time.Now(); s.Stats().Waiting == 0 && time.Since(began) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
	if _, err := s.Predict(t.Context(), one); !errors.Is(err, berth.ErrBusy) {
		t.Errorf("a full queue: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-long; !errors.Is(err, berth.ErrClosed) {
		t.Errorf("the request that waited: %v", err)
	}
	m, err := berth.OpenTrained(t.Context(), runtest.Parsed(t, runtest.Everything), berth.Weights{Dir: trainedDir(t)}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Serve(t.Context(), berth.ServeOptions{Batch: -1}); !errors.Is(err, berth.ErrOptions) {
		t.Errorf("a batch of -1: %v", err)
	}
}

// As many texts as there are generators begin at once, and as many as the queue has wait,
// also while the generators are made. The next one is refused.
func TestServiceRefusesTextsThatItCannotQueue(t *testing.T) {
	s, _, _ := serve(t, runtest.Parsed(t, runtest.Tied(t)), nil, berth.ServeOptions{Texts: 2, Queue: 1})
	var texts sync.WaitGroup
	begun, goOn := make(chan bool, 3), make(chan bool)
	for range 3 {
		texts.Go(func() {
			first := true
			_, err := s.Generate(t.Context(), berth.GenerateOptions{Prompt: "7 bot", Tokens: 3, Slide: true}, func(berth.Piece) error {
				if first {
					first = false
					begun <- true
					<-goOn
				}
				return nil
			})
			if err != nil {
				t.Error(err)
				begun <- true
			}
		})
	}
	for range 2 {
		<-begun
	}
	for began := time.Now(); s.Stats().WaitingTexts == 0 && !t.Failed() && time.Since(began) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
	if _, err := s.Generate(t.Context(), berth.GenerateOptions{Prompt: "7", Tokens: 1}, unheard); !errors.Is(err, berth.ErrBusy) {
		t.Errorf("beyond the queue: %v", err)
	}
	if st := s.Stats(); st.Texts != 2 || st.WaitingTexts != 1 {
		t.Errorf("%+v", st)
	}
	close(goOn)
	texts.Wait()
}

// trainedDir is the folder of a run of one step.
func trainedDir(t *testing.T) string {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	return dir
}
