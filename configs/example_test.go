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

// Settings tell two runs apart, key by key.
func ExampleConfig_Settings() {
	text := []byte("data: digits\nmodel: {preset: mlp}\n")
	a, _ := configs.Parse("mine.yaml", text, configs.Overlay{})
	b, _ := configs.Parse("mine.yaml", text, configs.Overlay{Set: []string{"optimizer.lr=0.01"}})
	before, _ := a.Settings()
	after, _ := b.Settings()
	for i := range before {
		if before[i] != after[i] {
			fmt.Println(before[i].Key, before[i].Value, "->", after[i].Value)
		}
	}
	// Output: optimizer.lr 0.001 -> 0.01
}
