package configs

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/registry"
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

// Augment is a random change to the images that train.
type Augment struct {
	Name string  // flip, crop, rotate, erase or mixup
	By   float64 // crop: pixels; rotate: degrees; erase: the probability; mixup: the parameter of the shares; flip has none
}

// augments is a list of Augments: words, or mappings of one key.
type augments struct{}

// augmentBy are the numbers of changes that have one.
var augmentBy = map[string]real{
	"crop": {min: 1, max: mostSide}, "rotate": {min: 0, max: 180, over: true}, "erase": {min: 0, max: 1, over: true}, "mixup": {min: 0, max: 1, over: true},
}

func (augments) expect() string {
	return "a list of changes such as [flip, {crop: 4}, {rotate: 10}, {erase: 0.25}, {mixup: 0.2}]"
}

func (a augments) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.SequenceNode {
		d.mismatch(n, path, a.expect())
		return
	}
	var out []Augment // nil for none
	for i, item := range n.Content {
		x, at := Augment{}, fmt.Sprintf("%s[%d]", path, i)
		switch {
		case item.Kind == yaml.ScalarNode && item.Value == "flip":
			x.Name = "flip"
		case item.Kind == yaml.MappingNode && len(item.Content) == 2:
			x.Name = item.Content[0].Value
			number, ok := augmentBy[x.Name]
			if !ok {
				d.mismatch(item.Content[0], at, "crop, rotate, erase or mixup, each with a number, or flip without one")
				continue
			}
			at = join(at, x.Name)
			d.where[at] = d.pos(item.Content[0])
			number.decode(d, item.Content[1], at, &x.By)
			if x.Name == "crop" && x.By != float64(int(x.By)) {
				d.mismatch(item.Content[1], at, "a whole number of pixels")
			}
		default:
			d.mismatch(item, at, "flip, or a mapping of one key such as {crop: 4}, {rotate: 10} or {erase: 0.25}")
			continue
		}
		out = append(out, x)
	}
	*dst.(*[]Augment) = out
}

func (augments) encode(src any, _ func(*key) bool) *yaml.Node {
	out := flow()
	for _, x := range *src.(*[]Augment) {
		item := plain(x.Name)
		if x.By != 0 {
			item = &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{plain(x.Name), float(x.By)}}
		}
		out.Content = append(out.Content, item)
	}
	return out
}

// Mixes reports whether images that train are mixed with others, and their classes with them.
func (d *Data) Mixes() bool {
	return slices.ContainsFunc(d.Augment, func(x Augment) bool { return x.Name == "mixup" })
}

// checkMixup refuses mixup where images change behind it, and losses that take no shares of classes.
func checkMixup(d *decoder, c *Config) {
	const at = "data.augment"
	i := slices.IndexFunc(c.Data.Augment, func(x Augment) bool { return x.Name == "mixup" })
	weighted, _ := registry.Get(c.LossKeys.Keys, "class_weights")
	w, ok := weighted.(registry.Weights)
	switch {
	case i < 0:
	case i < len(c.Data.Augment)-1:
		d.against([]string{at}, "mixup mixes images once they are changed; write it last, and once")
	case c.Loss != "cross_entropy":
		d.against([]string{at}, "mixup needs the loss cross_entropy, which takes shares of classes, and the loss is %s; take one of the two out", c.Loss)
	case ok && w.Given():
		d.against([]string{"loss.class_weights", at}, "weights of classes do not go with mixup, whose targets are shares of several; take one of the two out")
	}
}
