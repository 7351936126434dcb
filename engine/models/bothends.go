package models

// BothEnds is the first layer that reads a sequence from both ends; nil if there is none.
func BothEnds(layers []Layer) *Layer {
	for i := range layers {
		l := &layers[i]
		if l.Bidirectional {
			return l
		}
		if inside := BothEnds(l.Body); inside != nil {
			return inside
		}
	}
	return nil
}
