package configs

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// size is a number of bytes, an int64, plain or with a unit.
type size struct{}

var (
	sizePattern = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)$`)
	// sizeUnits holds the units from the largest exact one down.
	sizeUnits = []struct {
		name  string
		bytes int64
	}{
		{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1}, {"", 1},
	}
)

func (size) expect() string { return "a number of bytes such as 512MiB or 2GB" }

func (s size) decode(d *decoder, n *yaml.Node, path string, dst any) {
	m := sizePattern.FindStringSubmatch(n.Value)
	if n.Kind != yaml.ScalarNode || m == nil {
		d.mismatch(n, path, s.expect())
		return
	}
	v, err := strconv.ParseFloat(m[1], 64)
	for _, u := range sizeUnits {
		if u.name != m[2] {
			continue
		}
		if err != nil || v*float64(u.bytes) > math.MaxInt64/2 {
			break
		}
		*dst.(*int64) = int64(math.Round(v * float64(u.bytes)))
		if whole, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			*dst.(*int64) = whole * u.bytes // exact beyond 2^53
		}
		return
	}
	d.mismatch(n, path, s.expect())
}

func (size) encode(src any, _ func(*key) bool) *yaml.Node {
	v := *src.(*int64)
	for _, u := range sizeUnits {
		if v != 0 && u.bytes > 1 && v%u.bytes == 0 {
			return plain(strconv.FormatInt(v/u.bytes, 10) + u.name)
		}
	}
	return plain(strconv.FormatInt(v, 10))
}

// staging is an int64: auto, whole, or a size.
type staging struct{}

// leastStaging is the smallest area that is worth streaming through.
const leastStaging = 1 << 20

func (staging) expect() string { return "auto, whole, or at least 1MiB, such as 256MiB" }

func (s staging) decode(d *decoder, n *yaml.Node, path string, dst any) {
	out := dst.(*int64)
	switch n.Value {
	case "auto":
		*out = 0
	case "whole":
		*out = StageWhole
	default:
		if !sizePattern.MatchString(n.Value) {
			d.mismatch(n, path, s.expect())
			return
		}
		if (size{}).decode(d, n, path, dst); *out < leastStaging {
			d.mismatch(n, path, s.expect())
		}
	}
}

func (staging) encode(src any, keep func(*key) bool) *yaml.Node {
	switch *src.(*int64) {
	case 0:
		return plain("auto")
	case StageWhole:
		return plain("whole")
	}
	return size{}.encode(src, keep)
}

// samePadding stands for `same` until the kernel is known.
const samePadding = -1

// padding is an int, or `same`.
type padding struct{}

func (padding) expect() string { return "a whole number of at least 0, or same" }

func (p padding) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind == yaml.ScalarNode && n.Value == "same" {
		*dst.(*int) = samePadding
		return
	}
	v, ok := whole{0, maxDim}.parse(n)
	if !ok {
		d.mismatch(n, path, p.expect())
		return
	}
	*dst.(*int) = v
}

func (padding) encode(src any, keep func(*key) bool) *yaml.Node { return whole{}.encode(src, keep) }

// cut is a Stages: auto, a number, or lists of block names.
type cut struct{}

func (cut) expect() string {
	return "auto, a number of stages, or a list of lists of block names such as [[embed, block0], [block1, head]]"
}

func (c cut) decode(d *decoder, n *yaml.Node, path string, dst any) {
	out := dst.(*Stages)
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "auto":
		*out = Stages{}
	case n.Kind == yaml.ScalarNode:
		v, ok := whole{1, maxDim}.parse(n)
		if !ok {
			d.mismatch(n, path, c.expect())
			return
		}
		*out = Stages{Count: v}
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		*out = Stages{Blocks: make([][]string, len(n.Content))}
		for i, stage := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			if stage.Kind != yaml.SequenceNode || len(stage.Content) == 0 {
				d.mismatch(stage, at, "a list of at least one block name")
				continue
			}
			texts{blockName}.decode(d, stage, at, &out.Blocks[i])
		}
	default:
		d.mismatch(n, path, c.expect())
	}
}

func (cut) encode(src any, _ func(*key) bool) *yaml.Node {
	s := src.(*Stages)
	switch {
	case len(s.Blocks) > 0:
		out := flow()
		for _, blocks := range s.Blocks {
			out.Content = append(out.Content, strs(blocks))
		}
		return out
	case s.Count > 0:
		return plain(strconv.Itoa(s.Count))
	}
	return plain("auto")
}

// layerList is a []Layer.
type layerList struct{}

func (layerList) expect() string { return "a list of at least one layer" }

func (l layerList) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.mismatch(n, path, l.expect())
		return
	}
	out := make([]Layer, len(n.Content))
	for i, c := range n.Content {
		layerSection.decode(d, typed(c), fmt.Sprintf("%s[%d]", path, i), &out[i])
	}
	*dst.(*[]Layer) = out
}

// typed writes out a layer given under its type alone: `residual: [...]` is
// `{type: residual, layers: [...]}`, `dense: {units: 3}` is `{type: dense,
// units: 3}`. Other nodes stay as they are.
func typed(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return n
	}
	kind, body := n.Content[0], n.Content[1]
	isType := slices.ContainsFunc(layerSection.variants, func(v variant) bool { return v.name == kind.Value })
	if !isType || body.Kind == yaml.ScalarNode {
		return n
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "type", Line: kind.Line}, kind)
	if body.Kind == yaml.SequenceNode {
		layers := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "layers", Line: body.Line}
		out.Content = append(out.Content, layers, body)
	} else {
		out.Content = append(out.Content, body.Content...)
	}
	return out
}

func (layerList) encode(src any, keep func(*key) bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.SequenceNode}
	layers := *src.(*[]Layer)
	for i := range layers {
		out.Content = append(out.Content, layerSection.encode(&layers[i], keep))
	}
	return out
}
