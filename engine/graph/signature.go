package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// Signature identifies the computation of a graph: two graphs with equal
// signatures can share an executable. It covers the ops with their attributes, the
// connections, all metadata, and the order of inputs, variables, outputs, sums and
// assignments. It does not cover names, layers, phases or config lines. It is 32
// hexadecimal digits of a SHA-256.
func Signature(g *Graph) string {
	s := signer{h: sha256.New(), number: map[*Value]int{}}
	s.list("in", g.Inputs)
	s.list("var", g.Vars)
	for _, n := range g.Nodes {
		fmt.Fprintln(s.h, OpString(n.Op))
		s.list("read", n.In)
		s.list("write", n.Out)
	}
	for _, a := range g.Accums {
		s.list("sum "+OpString(a.Add), []*Value{a.Part, a.Sum})
	}
	for _, a := range g.Assigns {
		s.list("assign", []*Value{a.Var, a.New})
	}
	s.list("out", g.Outputs)
	return hex.EncodeToString(s.h.Sum(nil)[:16])
}

// signer numbers values in the order in which it meets them.
type signer struct {
	h      hash.Hash
	number map[*Value]int
}

// list hashes values by number. The metadata of a value follows its first mention.
func (s *signer) list(what string, vs []*Value) {
	fmt.Fprintf(s.h, "%s %d", what, len(vs))
	for _, v := range vs {
		k, known := s.number[v]
		if !known {
			k = len(s.number)
			s.number[v] = k
			fmt.Fprintf(s.h, " %d:%v", k, v.Meta)
			continue
		}
		fmt.Fprintf(s.h, " %d", k)
	}
	fmt.Fprintln(s.h)
}
