package pieces

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
)

// Op is a forward node that is a piece of its block.
type Op struct {
	Name  string // of its first result
	Block string
}

// Pieces are the ops at which blocks are cut, in the order of their graph. The zero value cuts none.
type Pieces []Op

// RefusedError says why an op cannot be a piece.
type RefusedError struct {
	Name string
	Why  error
}

// Error names the op, and says why.
func (e *RefusedError) Error() string { return fmt.Sprintf("%q %v", e.Name, e.Why) }

// Find finds the ops of these names. It leaves out those that are names of blocks, or of nothing in the graph.
// It refuses nodes that cannot be a piece, and ops with the name of another block, by a [*RefusedError].
func Find(g *graph.Graph, names []string) (Pieces, error) {
	var p Pieces
	blocks := nodes.Blocks(g)
	for _, n := range g.Nodes {
		name := n.Out[0].Name
		if !slices.Contains(names, name) {
			continue
		}
		if slices.Contains(blocks, name) {
			if of := nodes.BlockOf(n.Layer); n.Phase == graph.Forward && of != "" && of != name {
				return nil, &RefusedError{name, fmt.Errorf("names a block, and an op of block %q: give the block another name (in the model's layers)", of)}
			}
			continue
		}
		if err := refusal(n); err != nil {
			return nil, &RefusedError{name, err}
		}
		p = append(p, Op{name, n.Layer.Block})
	}
	return p, nil
}

// In are the blocks of a graph, and its ops that can be pieces of it, that the names of a step mean, each with its name there.
// The names of what this graph does without are left out.
func In(g *graph.Graph, names []string) map[string]string {
	in := map[string]string{}
	for _, name := range nodes.Blocks(g) {
		if slices.Contains(names, name) {
			in[name] = name
		}
	}
	for _, n := range g.Nodes {
		if inStep := nameInStep(n); slices.Contains(names, inStep) && in[inStep] == "" && refusal(n) == nil {
			in[n.Out[0].Name] = inStep
		}
	}
	return in
}

// nameInStep is the name that a node has in a step. What generates text reads the keys and values of earlier tokens by an op of its
// own, in place of a step's attention.
func nameInStep(n *graph.Node) string {
	name := n.Out[0].Name
	if op, ok := n.Op.(ops.CachedAttention); ok {
		if at := strings.LastIndex(name, op.Kind()); at >= 0 {
			return name[:at] + op.Whole().Kind() + name[at+len(op.Kind()):]
		}
	}
	return name
}

// refusal says why a node cannot be a piece of a block.
func refusal(n *graph.Node) error {
	switch {
	case n.Phase == graph.Backward && n.Of != nil:
		return fmt.Errorf("is of the backward pass; it goes with the op that it differentiates: pin %q", n.Of.Out[0].Name)
	case n.Phase != graph.Forward:
		return fmt.Errorf("is not of the forward pass; name an op of that, and its gradient goes with it")
	case nodes.BlockOf(n.Layer) == "":
		return errors.New("is an op of no block, which has its place with what reads it; pin an op of a layer")
	case n.Layer.Iterations > 0:
		return fmt.Errorf("is in %v, whose loops stay in one place; pin the block %q", n.Layer, n.Layer.Block)
	}
	return nil
}

// Apply is the pass: the graph whose blocks are cut. Ops that it does not have, such as dropout in
// an evaluation, cut nothing; what would be behind them is before them.
func (p Pieces) Apply(g *graph.Graph, c *stop.Check) (*graph.Graph, error) {
	if len(p) == 0 {
		return g, nil
	}
	type at struct {
		id, number int // of the node, and of the piece behind it
		name       string
	}
	cuts := map[string][]at{} // by block
	for i := range p {
		cuts[p[i].Block] = nil
	}
	for _, n := range stop.Each(c, g.Nodes) {
		block := nodes.BlockOf(n.Layer)
		if _, cut := cuts[block]; !cut || n.Phase != graph.Forward {
			continue
		}
		if i := p.of(block, n.Out[0].Name); i >= 0 {
			cuts[block] = append(cuts[block], at{n.ID, i + 2, n.Out[0].Name})
		}
	}
	return graph.Regroup(g, func(n *graph.Node) string {
		block := n.Layer.Block
		list, cut := cuts[block]
		if !cut {
			return block
		}
		number := 1
		for _, x := range list {
			switch {
			case x.id == n.ID:
				return x.name
			case x.id < n.ID:
				number = x.number
			}
		}
		return piece(block, number)
	}, c.Err)
}

// piece names a piece that is no op.
func piece(block string, number int) string { return fmt.Sprintf("%s:%d", block, number) }

// of is the index of an op among those of its block; -1 if it is none of them.
func (p Pieces) of(block, name string) int {
	i := 0
	for _, op := range p {
		switch {
		case op.Block != block:
		case op.Name == name:
			return i
		default:
			i++
		}
	}
	return -1
}

// Is reports whether a piece is an op.
func (p Pieces) Is(name string) bool {
	return slices.ContainsFunc(p, func(op Op) bool { return op.Name == name })
}

// Whole is the block that a piece is of. Another block is whole.
func (p Pieces) Whole(name string) string {
	for _, op := range p {
		number, ok := strings.CutPrefix(name, op.Block+":")
		if op.Name == name || ok && number != "" && strings.Trim(number, "0123456789") == "" {
			return op.Block
		}
	}
	return name
}

// Order sorts pieces by their blocks, in the order in which these come first. Pieces of a block keep theirs.
func (p Pieces) Order(names []string) []string {
	if len(p) == 0 {
		return names
	}
	first := map[string]int{}
	for i, name := range names {
		if whole := p.Whole(name); first[whole] == 0 {
			first[whole] = i + 1
		}
	}
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return first[p.Whole(a)] - first[p.Whole(b)] })
	return sorted
}

// Blocks are the whole blocks of pieces.
func (p Pieces) Blocks(names []string) (blocks []string) {
	if len(p) == 0 {
		return names
	}
	for _, name := range p.Order(names) {
		if whole := p.Whole(name); len(blocks) == 0 || blocks[len(blocks)-1] != whole {
			blocks = append(blocks, whole)
		}
	}
	return blocks
}
