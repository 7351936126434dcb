package optim_test

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
)

// Adagrad, in an init function: `optimizer: {name: adagrad, lr: 0.01}` in a config.
func ExampleRegister() {
	type keys struct {
		Eps float64 `yaml:"eps" min:"0" doc:"added to the root of the sum of squares"`
	}
	optim.Register(optim.OptimizerType[keys]{
		Name: "adagrad", Version: 1, Doc: "Duchi et al., 2011.", Defaults: keys{Eps: 1e-10},
		Update: func(u *optim.Update, k keys, w, g *graph.Value) *graph.Value {
			b, sum := u.Builder, u.State("sum")
			now := ops.Add(b, sum, ops.Square(b, g))
			u.Set(sum, now)
			step := ops.Div(b, g, ops.AddConst(b, ops.Sqrt(b, now), k.Eps))
			return ops.Sub(b, w, ops.Mul(b, step, u.Rate()))
		},
	})
}
