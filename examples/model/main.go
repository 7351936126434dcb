// Model trains a network that is Go from end to end: its data, its layers and its loss, all
// checked by the compiler. It learns the height of a wave. Try it: go run ./examples/model
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"gorgonia.org/tensor"
)

const config = `{data: {source: given, task: regression}, model: {preset: given}, loss: charbonnier, train: {epochs: 8}, optimizer: {lr: 0.005}}`

var wave = &custom.Set{Name: "wave", Version: 1, Len: 4000, Input: shape.F32(2), Target: shape.F32(1),
	Fill: func(s custom.Sample, input, target *tensor.Dense) error {
		r, at := rand.New(rand.NewPCG(uint64(s.Index), 0)), input.Float32s()
		at[0], at[1] = r.Float32(), r.Float32()
		target.Float32s()[0] = float32(math.Sin(6 * float64(at[0]*at[1])))
		return nil
	}}

func net(b *models.Builder, x *graph.Value) *graph.Value {
	a := b.Stack(x, models.Dense{Units: 32, Activation: "tanh"})
	gate := b.Stack(x, models.Dense{Units: 32}, models.Sigmoid{})
	return b.Stack(ops.Mul(b.Builder, a, gate), models.Dense{Units: 32, Activation: "relu"}, models.Dense{Units: 1})
}

func init() {
	models.RegisterLoss(models.LossType[struct{}]{Name: "charbonnier", Version: 1, Doc: "√(d²+1), summed.",
		Loss: func(b *models.Builder, _ struct{}, output, target *graph.Value) *graph.Value {
			d := ops.Square(b.Builder, ops.Sub(b.Builder, output, target))
			return ops.Sum(b.Builder, ops.Sqrt(b.Builder, ops.AddConst(b.Builder, d, 1)), false)
		}})
}

func train(ctx context.Context, o berth.TrainOptions) (report *berth.Report, err error) {
	cfg, err := configs.Parse("wave", []byte(config), configs.Overlay{})
	if err != nil {
		return nil, err
	}
	run, err := berth.Open(ctx, cfg, berth.OpenOptions{Data: wave, Model: models.Func(net)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	return run.Train(ctx, o)
}

func main() {
	report, err := train(context.Background(), berth.TrainOptions{Dir: "runs/wave", Fresh: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("of heights from -1 to 1, answers are off by", report.Final.Metrics["mae"])
}
