package configs

import (
	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/registry"
)

// lossSection is a loss and its keys.
var lossSection = chosen(&section{
	doc:        "The function that training minimises. `loss: NAME` is short for `loss: {name: NAME}`.",
	pos:        posOf(func(c *Config) *Pos { return new(Pos) }),
	shorthand:  "name",
	names:      registry.Loss,
	registered: registeredIn(func(c *Config) *Registered { return &c.LossKeys }),
	selector:   &key{name: "name", at: at(func(c *Config) *string { return &c.Loss }), required: true, doc: "it decides the other keys"},
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
	if v := lossSection.row(c.Loss); v != nil && len(v.keys) > 0 {
		if n := lossSection.encode(c, keep); len(n.Content) > 2 { // more than its name
			return n
		}
	}
	return plain(c.Loss)
}

func (lossKind) isZero(src any) bool { return src.(*Config).Loss == "" }

// loss finds the config's loss in the registry.
func (c *Config) loss() registry.Entry {
	e, _ := registry.Find(registry.Loss, c.Loss)
	return e
}

// UnitTargets reports whether the loss takes targets from 0 to 1, which stand for no and
// yes.
func (c *Config) UnitTargets() bool { return c.loss().Bits }
