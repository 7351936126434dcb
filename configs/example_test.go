package configs_test

import (
	"fmt"

	"github.com/berth-ml/berth/configs"
)

// A shipped config with one key changed, and one that is misspelt.
func ExampleLoad() {
	c, err := configs.Load("digits", configs.Overlay{Set: []string{"train.batch=64"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Name, c.Model.Preset, c.Train.Batch)

	_, err = configs.Parse("mine.yaml", []byte("data: {source: digits}\nmodel: {preset: mlp}\ntrain:\n  bacth: 64\n"), configs.Overlay{})
	fmt.Println(err)
	// Output:
	// digits mlp 64
	// mine.yaml:4: train.bacth: unknown key; did you mean "batch"?
}
