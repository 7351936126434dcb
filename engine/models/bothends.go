package models

// BothEnds is the first layer that reads a sequence from both ends; nil if there is none.
func (s Stack) BothEnds() (first *Named) {
	s.Each(func(n Named) {
		if l, ok := n.Layer.(interface{ BothEnds() bool }); ok && l.BothEnds() && first == nil {
			first = &n
		}
	})
	return first
}
