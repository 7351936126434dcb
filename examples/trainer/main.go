// Trainer is a trainer of its own: the command with a data set, an op, a loss, a layer and
// a kind of device that packages beside it add. Each adds itself when it is imported:
//
//	go run ./examples/trainer train examples/dataset/spirals.yaml
//	go run ./examples/trainer train examples/op/ripples.yaml
//	go run ./examples/trainer train examples/loss/line.yaml
//	go run ./examples/trainer train examples/lstm/plays.yaml
//	go run ./examples/trainer train digits --devices toy
package main

import (
	"github.com/berth-ml/berth/cmd/trainer/command"

	_ "github.com/berth-ml/berth/examples/dataset" // data: {source: spirals}
	_ "github.com/berth-ml/berth/examples/device"  // --devices toy
	_ "github.com/berth-ml/berth/examples/loss"    // loss: pseudo_huber
	_ "github.com/berth-ml/berth/examples/lstm"    // the layer peephole_lstm
	_ "github.com/berth-ml/berth/examples/op"      // the layer wave
)

func main() { command.Main() }
