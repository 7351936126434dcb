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

// A name that is no key may be the last part of one.
func ExampleKeysNear() {
	fmt.Println(configs.KeysNear("lr"))
	fmt.Println(configs.KeysNear("train.bacth"))
	// Output:
	// [optimizer.lr]
	// [train.batch]
}

// Two configs are compared key by key, over the keys that decide the numbers.
func ExampleChanges() {
	then := []byte("data: digits\nmodel: {preset: mlp}\n")
	now := []byte("data: digits\nmodel: {preset: mlp}\noptimizer: {lr: 0.01}\ndevices: cpu:2\n")
	changes, err := configs.Changes(then, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(configs.SummaryOfChanges(changes))
	// Output: optimizer.lr was 0.001, is 0.01
}
