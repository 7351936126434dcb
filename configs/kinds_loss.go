package configs

import (
	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/registry"
)

// lossSection is a loss with keys, which only losses that the program adds have.
var lossSection = chosen(&section{
	doc:       "A loss that the program adds. `loss: NAME` is short for `loss: {name: NAME}`.",
	pos:       posOf(func(c *Config) *Pos { return new(Pos) }),
	shorthand: "name",
	addable:   registry.Loss,
	added:     addedTo(func(c *Config) *Added { return &c.LossAdded }),
	selector:  &key{name: "name", at: at(func(c *Config) *string { return &c.Loss }), required: true, doc: "it decides the other keys"},
	variants:  []variant{{"cross_entropy", "For classes.", nil}, {"mse", "For numbers.", nil}, {"bce", "For numbers from 0 to 1.", nil}},
})

// lossKind is the loss of a Config: a name, or a mapping with its keys.
type lossKind struct{}

func (lossKind) expect() string { return lossSection.selector.kind.expect() }

func (lossKind) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind == yaml.ScalarNode && !isNull(n) { // a wrong name is the mistake of the key itself
		before := len(d.faults)
		lossSection.selector.kind.decode(d, n, path, &dst.(*Config).Loss)
		if len(d.faults) > before {
			return
		}
	}
	lossSection.decode(d, n, path, dst)
}

func (lossKind) encode(src any, keep func(*key) bool) *yaml.Node {
	c := src.(*Config)
	if _, ok := lossSection.entry(c.Loss); ok {
		return lossSection.encode(c, keep)
	}
	return plain(c.Loss)
}

func (lossKind) isZero(src any) bool { return src.(*Config).Loss == "" }

// lossTargets says of a loss whether its targets are classes, and whether answers can
// be right or wrong.
func lossTargets(name string) (classes, accuracy bool) {
	switch name {
	case "cross_entropy":
		return true, true
	case "bce":
		return false, true
	}
	e, _ := registry.Find(registry.Loss, name)
	return e.Classes, e.Accuracy
}
