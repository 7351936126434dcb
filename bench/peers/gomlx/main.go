// Command gomlx trains the workload mlp of `trainer bench` in GoMLX, on its
// backend in pure Go, and prints its times as JSON. It is a module of its own,
// so that Berth does not depend on GoMLX. With GOEXPERIMENT=simd GoMLX's matrix
// products use vectors.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"
)

const batch, features, classes = 128, 784, 10

// warmSteps are the least, and warmShare the part of the time, before steps count.
const warmSteps, warmShare = 3, 0.2

func main() {
	seconds := flag.Float64("seconds", 3, "measure for that long")
	threads := flag.Int("threads", 2, "processors to use")
	flag.Parse()
	runtime.GOMAXPROCS(*threads)
	if err := run(*seconds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(seconds float64) error {
	backend, err := gobackend.New("")
	if err != nil {
		return err
	}
	adamW := optimizer.Adam().LearningRate(1e-5).WeightDecay(0.01).Done()
	t := train.NewTrainer(backend, model.NewStore(), mlp, loss.SparseCategoricalCrossEntropyLogits, adamW, nil, nil)
	if _, _, err := steps(t, warmSteps, warmShare*seconds); err != nil {
		return err
	}
	times, last, err := steps(t, 1, seconds)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"version": version(), "steps": len(times), "loss": last,
		"step_ms": map[string]float64{"median": times[len(times)/2], "min": times[0]},
	})
}

// mlp is 784-512-256-10 with relu; x [128,784].
func mlp(scope *model.Scope, x *graph.Node) *graph.Node {
	x = activation.Relu(layers.DenseWithBias(scope.In("0"), x, 512))
	x = activation.Relu(layers.DenseWithBias(scope.In("1"), x, 256))
	return layers.DenseWithBias(scope.In("2"), x, classes)
}

// steps trains for at least so many steps and seconds. It is each step's time in
// ms, shortest first, and the last loss. Making the batch's tensors, which a
// step uses up, does not count.
func steps(t *train.Trainer, atLeast int, seconds float64) (times []float64, last float32, err error) {
	x, y := data()
	for start := time.Now(); len(times) < atLeast || time.Since(start).Seconds() < seconds; {
		b := train.Batch{
			Inputs: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(x, batch, features)},
			Labels: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(y, batch, 1)},
		}
		before := time.Now()
		metrics, err := t.TrainStep(b)
		if err != nil {
			return nil, 0, err
		}
		last = tensors.ToScalar[float32](metrics[0])
		times = append(times, float64(time.Since(before))/1e6)
		for _, m := range metrics {
			if err := m.FinalizeAll(); err != nil {
				return nil, 0, err
			}
		}
	}
	slices.Sort(times)
	return times, last, nil
}

func data() (x []float32, y []int32) {
	r := rand.New(rand.NewPCG(1, 1))
	for range batch * features {
		x = append(x, float32(r.NormFloat64()))
	}
	for range batch {
		y = append(y, int32(r.IntN(classes)))
	}
	return x, y
}

// version names GoMLX's.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "GoMLX"
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/gomlx/gomlx" {
			return "GoMLX " + m.Version + ", " + runtime.Version()
		}
	}
	return "GoMLX"
}
