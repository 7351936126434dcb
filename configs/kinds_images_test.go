package configs_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/configs"
)

// Sizes and changes of images that nobody can mean are refused with what is meant.
func TestImageKeys(t *testing.T) {
	for data, want := range map[string]string{
		"size: 64":                                   "data.size: got 64, expected a height and a width of at most 4096, such as [64, 64]",
		"size: [64, 5000]":                           "data.size[1]: got 5000, expected a whole number from 1 to 4096",
		"augment: flip":                              "data.augment: got \"flip\", expected a list of changes such as [flip, {crop: 4}",
		"augment: [turn]":                            "data.augment[0]: got \"turn\", expected flip, or a mapping of one key such as {crop: 4}",
		"augment: [{blur: 1}]":                       "data.augment[0]: got \"blur\", expected crop, rotate, erase or mixup, each with a number, or flip without one",
		"augment: [{crop: 1.5}]":                     "data.augment[0].crop: got 1.5, expected a whole number of pixels",
		"augment: [flip, {rotate: 200}]":             "data.augment[1].rotate: got 200, expected a number above 0 and at most 180",
		"augment: [{mixup: 0.2}, flip]":              "data.augment: mixup mixes images once they are changed; write it last, and once",
		"augment: [{mixup: 2}]":                      "data.augment[0].mixup: got 2, expected a number above 0 and at most 1",
		"augment: [{mixup: 1}]}\nloss: {name: focal": "data.augment: mixup needs the loss cross_entropy, which takes shares of classes, and the loss is focal",
		"augment: [{mixup: 1}]}\nloss: {name: cross_entropy, class_weights: balanced": "loss.class_weights: weights of classes do not go with mixup",
	} {
		_, err := configs.Parse("x.yaml", []byte("model: {preset: mlp}\ndata: {source: images, path: x, "+data+"}\n"), configs.Overlay{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", data, err, want)
		}
	}
}
