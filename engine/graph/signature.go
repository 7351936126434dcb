package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/berth-ml/berth/internal/stop"
)

// Signature identifies the computation of a graph: two graphs with equal
// signatures can share an executable. It covers the ops with their attributes, the
// connections, all metadata (of the whole, too, where a node computes a part), the guards
// of nodes, and the order of inputs, variables, outputs, sums
// and assignments. It does not cover names, layers, phases or config lines. It is 32
// hexadecimal digits of a SHA-256.
func Signature(g *Graph) string {
	s, _ := SignatureUntil(g, nil)
	return s
}

// SignatureUntil is [Signature]. ask is called now and then; its error ends it. Nil
// means never.
func SignatureUntil(g *Graph, ask func() error) (string, error) {
	check := stop.When(ask)
	s := signer{number: NewTable[int](g)}
	s.list("in", g.Inputs)
	s.list("var", g.Vars)
	needs := NeedsOf(g)
	for i, n := range stop.Each(check, g.Nodes) {
		s.text = fmt.Appendf(s.text, "%s%+v\n", n.Op.Kind(), n.Op) // OpString
		s.list("read", n.In)
		s.list("write", n.Out)
		if w := n.Whole(); w != n {
			s.text = fmt.Appendf(s.text, "of %v %v\n", Metas(w.In), Metas(w.Out))
		}
		for _, guard := range needs.Guards(i) {
			s.list(fmt.Sprintf("when else=%v", guard.Else), []*Value{guard.Value})
		}
	}
	for _, a := range g.Accums {
		s.list("sum "+OpString(a.Add), []*Value{a.Part, a.Sum})
	}
	for _, a := range g.Assigns {
		s.list("assign", []*Value{a.Var, a.New})
	}
	s.list("out", g.Outputs)
	if err := check.Err(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(s.text)
	return hex.EncodeToString(sum[:16]), nil
}

// signer writes the text that is hashed. It numbers values in the order in which
// it meets them.
type signer struct {
	text   []byte
	number *Table[int] // from 1; 0: not met
	met    int
}

// list writes values by number. The metadata of a value follows its first mention.
func (s *signer) list(what string, vs []*Value) {
	s.text = append(append(s.text, what...), ' ')
	s.text = strconv.AppendInt(s.text, int64(len(vs)), 10)
	for _, v := range vs {
		k := s.number.At(v)
		known := *k > 0
		if !known {
			s.met++
			*k = s.met
		}
		s.text = strconv.AppendInt(append(s.text, ' '), int64(*k-1), 10)
		if !known {
			s.text = append(append(s.text, ':'), v.Meta.String()...)
		}
	}
	s.text = append(s.text, '\n')
}
