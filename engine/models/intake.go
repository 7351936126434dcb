package models

import "github.com/berth-ml/berth/engine/shape"

// intake describes the input that a layer type accepts.
type intake struct {
	dtype    shape.DType // Invalid: any
	min, max int         // number of dimensions, the batch included; a max of 0 is no limit
	words    string      // the input in words, and the advice for another
}

// The intakes of the layer types.
var (
	anything = intake{}
	numbers  = intake{shape.Float32, 1, 0, "numbers"}
	features = intake{shape.Float32, 2, 0, "[batch,…,features]; put a reshape layer with a shape such as [1] before it"}
	channels = intake{shape.Float32, 2, 0, "[batch,channels,…]; put a reshape layer before it"}
	rows     = intake{shape.Float32, 2, 3, "[batch,features] or [batch,time,features]; put a flatten layer before it"}
	sequence = intake{shape.Float32, 3, 3, "sequences [batch,time,width]; put an embedding or a reshape layer before it"}
	images   = intake{shape.Float32, 4, 4, "images [batch,channels,height,width]; put a reshape layer before it"}
	tokens   = intake{shape.Int32, 1, 0, "tokens, which are whole numbers (i32); use a dense layer for measured numbers, or data of tokens"}
)
