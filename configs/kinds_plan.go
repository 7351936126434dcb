package configs

import (
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// deviceID is the name of one device, which may be of a rank.
var deviceID = text{valid: "a device such as cpu:0 (1/cpu:0 of rank 1)", pattern: regexp.MustCompile(`^((0|[1-9][0-9]{0,4})/)?[a-z][a-z0-9_]*:(0|[1-9][0-9]{0,3})$`)}

// pins are devices by the name of a block or an op.
type pins struct{}

func (pins) expect() string { return "devices by block or op, such as {embed: cpu:0}, or {} for none" }

func (p pins) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.MappingNode {
		d.mismatch(n, path, p.expect())
		return
	}
	var out map[string]string // nil for no pins
	for name, e := range entries(d, n, path) {
		var block, id string
		blockName.decode(d, e.key, path, &block)
		deviceID.decode(d, e.value, join(path, name), &id)
		if out == nil {
			out = map[string]string{}
		}
		out[block] = id
		d.where[join(path, name)] = d.posOf(e)
	}
	*dst.(*map[string]string) = out
}

func (pins) encode(src any, _ func(*key) bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	m := *src.(*map[string]string)
	for _, block := range slices.Sorted(maps.Keys(m)) {
		out.Content = append(out.Content, str(block), str(m[block]))
	}
	return out
}

// chosenPlan is a *ChosenPlan.
type chosenPlan struct{}

func (chosenPlan) expect() string { return "a plan, as a run's config.yaml has it" }

func (c chosenPlan) decode(d *decoder, n *yaml.Node, path string, dst any) {
	var p ChosenPlan
	if err := n.Decode(&p); err != nil || len(p.On) != len(p.Stages) || p.Replicas < 0 {
		d.mismatch(n, path, c.expect())
		return
	}
	*dst.(**ChosenPlan) = &p
}

func (chosenPlan) encode(src any, _ func(*key) bool) *yaml.Node {
	out := &yaml.Node{}
	if err := out.Encode(**src.(**ChosenPlan)); err != nil {
		panic("BUG: a plan cannot be written: " + err.Error())
	}
	return out
}
