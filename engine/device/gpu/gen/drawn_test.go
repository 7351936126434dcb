package gen

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/graph"
)

// drawn are nodes of a kind, always the same: one for each seed from 0 to count.
func drawn(t *testing.T, kind string, count int) (nodes []*graph.Node) {
	t.Helper()
	one := rapid.Custom(func(t *rapid.T) kernelstest.Sample { return kernelstest.Cases[kind](kernelstest.NewSource(t)) })
	for seed := range count {
		s := one.Example(seed)
		n, err := kernelstest.NodeOf(s.Op, s.In)
		if err != nil {
			continue // bad inputs, drawn on purpose
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// kernelsOf are the kernels of count nodes of each kind, each kernel once.
func kernelsOf(t *testing.T, count int) []Call {
	t.Helper()
	byName := map[string]Call{}
	for _, kind := range Kinds() {
		for _, n := range drawn(t, kind, count) {
			calls, _, err := Node(n)
			if err != nil {
				continue // an attribute that no template covers
			}
			for _, c := range calls {
				byName[c.Name] = c
			}
		}
	}
	var all []Call
	for _, c := range byName {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Call) int { return strings.Compare(a.Name, b.Name) })
	return all
}
