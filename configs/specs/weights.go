package specs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/internal/edit"
	"github.com/berth-ml/berth/internal/errs"
)

// weightsKey is the key of a loss with the weights of classes.
const weightsKey = "class_weights"

// balanced is the word for weights that follow from how often each class occurs.
const balanced = "balanced"

// mostWeights is the most classes that are weighed: a step makes their weights anew.
const mostWeights = 1000

// askedWeights are the weights of classes that the loss of a config asks for.
func askedWeights(c *configs.Config) registry.Weights {
	v, _ := registry.Get(c.LossKeys.Keys, weightsKey)
	w, _ := v.(registry.Weights)
	return w
}

// checkWeights refuses weights of classes that the data does not have.
func checkWeights(c *configs.Config, info *datasets.Info) error {
	asked := askedWeights(c)
	switch at := c.Where("loss." + weightsKey); {
	case asked.Given() && info.Classes == 0:
		return configs.At(at, fmt.Errorf("%w: the data has no classes that loss.%s could weigh: leave it out", errs.ErrOptions, weightsKey))
	case asked.Given() && info.Classes > mostWeights:
		return configs.At(at, fmt.Errorf("%w: loss.%s weighs up to %d classes, and the data has %d: leave it out", errs.ErrOptions, weightsKey, mostWeights, info.Classes))
	}
	for _, name := range slices.Sorted(maps.Keys(asked.ByName)) {
		if _, ok := info.ClassNamed(name); ok {
			continue
		}
		key := "loss." + weightsKey + "." + name
		return configs.At(c.Where(key), fmt.Errorf("%w: %s: there is no class %q: %s", errs.ErrOptions, key, name, meant(name, info)))
	}
	return nil
}

// checkPositive refuses a positive class that is not one of two.
func checkPositive(c *configs.Config, info *datasets.Info) error {
	name, at := c.Data.Positive, c.Where("data.positive")
	if name == "" {
		return nil
	}
	if info.Classes != 2 {
		return configs.At(at, fmt.Errorf("%w: data.positive: of %d classes none is the positive one: leave it out", errs.ErrOptions, info.Classes))
	}
	if _, ok := info.ClassNamed(name); !ok {
		return configs.At(at, fmt.Errorf("%w: data.positive: there is no class %q: %s", errs.ErrOptions, name, meant(name, info)))
	}
	return nil
}

// meant names the class that a wrong name may mean, or the classes that there are.
func meant(name string, info *datasets.Info) string {
	if info.ClassNames == nil {
		return fmt.Sprintf("the classes have no names: give numbers from 0 to %d", info.Classes-1)
	}
	return edit.NearOrListed(name, info.ClassNames, "there are", info.ClassNames)
}

// classWeights are the weights of the classes; nil: each counts 1, or the data is not known.
func classWeights(c *configs.Config, info *datasets.Info) []float64 {
	asked := askedWeights(c)
	if !asked.Given() || asked.Word == balanced && info.ClassCounts == nil {
		return nil
	}
	weights := slices.Repeat([]float64{1}, info.Classes)
	for name, w := range asked.ByName {
		if class, ok := info.ClassNamed(name); ok {
			weights[class] = w
		}
	}
	if asked.Word == balanced {
		balance(weights, info.ClassCounts)
	}
	return weights
}

// balance gives each class that has samples the weight n/(k·count), of n samples and k classes
// that have some.
func balance(weights []float64, counts []int) {
	n, k := 0, 0
	for _, count := range counts {
		if n += count; count > 0 {
			k++
		}
	}
	for class, count := range counts {
		if count > 0 {
			weights[class] = float64(n) / (float64(k) * float64(count))
		}
	}
}
