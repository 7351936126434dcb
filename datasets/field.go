package datasets

import "github.com/berth-ml/berth/engine/shape"

// Field describes one tensor of a sample. Meta has no batch dimension.
type Field struct {
	Name string
	Meta shape.Meta
}

// lengthField is the number of a sample's positions that are no padding.
var lengthField = Field{"length", shape.I32()}
