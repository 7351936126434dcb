package main

import (
	"embed"
	"log"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
)

//go:embed critic.yaml generator.yaml
var files embed.FS

// config reads the config of a network.
func config(name string) *configs.Config {
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		log.Fatal(err)
	}
	cfg, err := configs.Parse(name+".yaml", text, configs.Overlay{})
	if err != nil {
		log.Fatal(err)
	}
	return cfg
}

// The generator's outputs are a number and the critic's score of it. Its loss is small
// where the critic takes the number for data, which is target 1.
func init() {
	models.RegisterLoss(models.LossType[struct{}]{
		Name: "fool", Version: 1, Doc: "Cross entropy of the last output alone.", AnyShape: true,
		Loss: func(b *models.Builder, _ struct{}, output, target *graph.Value) *graph.Value {
			n := output.Meta.Shape[0]
			return b.One(ops.BCE{}, ops.SliceOf(b.Builder, output, []int{0, 1}, []int{n, 2}), target)
		},
	})
}
