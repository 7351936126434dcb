package specs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/internal/edit"
	"github.com/berth-ml/berth/internal/errs"
)

// The keys of losses that weigh their targets, and the word for weights that follow from how often
// each target occurs.
const (
	classWeights    = "class_weights"
	positiveWeights = "positive_weights"
	balanced        = "balanced"
)

// mostWeights is the most weights: a step makes them anew.
const mostWeights = 1000

// weighing is what a loss asks for.
type weighing struct {
	key string // that asks; "": none does
	registry.Weights
}

// weighingOf are the weights that the loss of a config asks for.
func weighingOf(c *configs.Config) (w weighing) {
	for _, key := range []string{classWeights, positiveWeights} {
		v, _ := registry.Get(c.LossKeys.Keys, key)
		if given, ok := v.(registry.Weights); ok && given.Given() {
			return weighing{key, given}
		}
	}
	return w
}

// place is the number of a class or label that has a weight; ok is false where there is none of
// that name.
func (w *weighing) place(info *datasets.Info, name string) (i int, ok bool) {
	if w.key == classWeights {
		return info.ClassNamed(name)
	}
	if info.TargetNames != nil {
		i = slices.Index(info.TargetNames, name)
		return i, i >= 0
	}
	i, err := strconv.Atoi(name)
	return i, err == nil && i >= 0 && i < w.room(info) && strconv.Itoa(i) == name
}

// room is the number of weights.
func (w *weighing) room(info *datasets.Info) int {
	if w.key == classWeights {
		return info.Classes
	}
	return info.Target.Meta.Elems()
}

// checkWeights refuses weights of what the data does not have.
func checkWeights(c *configs.Config, info *datasets.Info) error {
	w := weighingOf(c)
	if w.key == "" {
		return nil
	}
	if n := w.room(info); n > mostWeights {
		return configs.At(c.Where("loss."+w.key), fmt.Errorf("%w: loss.%s: there are at most %d weights, and the data has %d classes or labels: leave it out", errs.ErrOptions, w.key, mostWeights, n))
	}
	for _, name := range slices.Sorted(maps.Keys(w.ByName)) {
		if _, ok := w.place(info, name); !ok {
			key := "loss." + w.key + "." + name
			return configs.At(c.Where(key), fmt.Errorf("%w: %s: there is no %s", errs.ErrOptions, key, w.meant(name, info)))
		}
	}
	return nil
}

// meant says which name a wrong one may mean.
func (w *weighing) meant(name string, info *datasets.Info) string {
	what, all, names := "class", "the classes are", info.ClassNames
	if w.key == positiveWeights {
		what, all, names = "label", "the labels are", info.TargetNames
	}
	if names == nil {
		return fmt.Sprintf("%s %q: they have no names, so give a number from 0 to %d", what, name, w.room(info)-1)
	}
	return fmt.Sprintf("%s %q: %s", what, name, edit.NearOrListed(name, names, all, names))
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
		w := weighing{key: classWeights}
		return configs.At(at, fmt.Errorf("%w: data.positive: there is no %s", errs.ErrOptions, w.meant(name, info)))
	}
	return nil
}

// lossWeights are the weights of the classes, or of the 1 of each number; nil: each counts 1, or the
// data is not known.
func lossWeights(c *configs.Config, info *datasets.Info) []float64 {
	w := weighingOf(c)
	switch {
	case w.key == "":
		return nil
	case w.Word == balanced:
		return info.Balanced
	}
	weights := slices.Repeat([]float64{1}, w.room(info))
	for name, weight := range w.ByName {
		if i, ok := w.place(info, name); ok {
			weights[i] = weight
		}
	}
	return weights
}
