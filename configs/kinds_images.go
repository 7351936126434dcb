package configs

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// mostSide is the most pixels of a side of an image that a model gets.
const mostSide = 4096

// sides is the height and the width of an image.
type sides struct{}

var bothSides = ints{each: whole{1, mostSide}, some: true}

func (sides) expect() string {
	return fmt.Sprintf("a height and a width of at most %d, such as [64, 64]", mostSide)
}

func (s sides) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
		d.mismatch(n, path, s.expect())
		return
	}
	bothSides.decode(d, n, path, dst)
}

func (sides) encode(src any, keep func(*key) bool) *yaml.Node { return bothSides.encode(src, keep) }
