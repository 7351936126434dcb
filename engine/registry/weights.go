package registry

import (
	"reflect"
	"slices"
)

// Weights are numbers by name, such as those of classes, or a word that says how they
// follow from the data. The zero value is a key that is not given.
type Weights struct {
	Word   string // "": ByName has the numbers
	ByName map[string]float64
}

var weightsType = reflect.TypeFor[Weights]()

// Given reports whether there are weights.
func (w Weights) Given() bool { return w.Word != "" || len(w.ByName) > 0 }

// weighs reports whether weights have a valid word, or valid numbers.
func (f Field) weighs(w Weights) bool {
	if w.Word != "" {
		return slices.Contains(f.Words, w.Word) && len(w.ByName) == 0
	}
	for _, v := range w.ByName {
		if !f.in(v) {
			return false
		}
	}
	return true
}
