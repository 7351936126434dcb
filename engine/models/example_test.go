package models_test

import (
	"fmt"
	"log"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
)

// The three graphs of a small classifier share its parameters by name.
func Example() {
	s := models.Spec{
		Input: shape.F32(1, 8, 8), Target: shape.I32(), Classes: 10, Loss: "cross_entropy",
		Layers: models.MLP([]int{32}, "relu", 10, graph.Pos{File: "mine.yaml", Line: 3}),
	}
	sgd := optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}}
	train, err := models.Train(s, sgd, models.Size{Microbatch: 16, Microbatches: 2, Batch: 32, Ring: 1})
	if err != nil {
		log.Fatal(err)
	}
	predict, err := models.Predict(s, models.Size{Microbatch: 16})
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range predict.Vars {
		fmt.Println(v, "trained:", train.Find(v.Name) != nil)
	}
	fmt.Println(predict.Outputs[0])

	s.Layers = models.MLP([]int{32}, "relu", 7, graph.Pos{File: "mine.yaml", Line: 3})
	_, err = models.Eval(s, models.Size{Microbatch: 16})
	fmt.Println(err)
	// Output:
	// layers.0.weight f32[32,64] trained: true
	// layers.0.bias f32[32] trained: true
	// layers.1.weight f32[10,32] trained: true
	// layers.1.bias f32[10] trained: true
	// prediction f32[16,10]
	// mine.yaml:3: layer 3 (loss "cross_entropy"): the model tells 7 classes apart, but the data has 10: give its last layer 10 outputs
}
