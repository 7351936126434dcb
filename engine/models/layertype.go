package models

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
)

// layerType is a type of layer: the input it accepts, and a function that
// appends the nodes of one such layer to x and gives its output.
type layerType struct {
	takes intake
	build func(c *context, l *Layer, x *graph.Value) *graph.Value
}

// listed is the names of a table in alphabetical order.
func listed[T any](table map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}

// merged joins the tables of the files.
func merged[T any](tables ...map[string]T) map[string]T {
	all := map[string]T{}
	for _, t := range tables {
		for name, row := range t {
			if _, twice := all[name]; twice {
				panic("BUG: two layer types are called " + name)
			}
			all[name] = row
		}
	}
	return all
}
