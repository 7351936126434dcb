package models

import "github.com/berth-ml/berth/engine/shape"

// Intake describes the input that a type of layer accepts.
type Intake struct {
	dtype    shape.DType // Invalid: any
	min, max int         // number of dimensions, the batch included; a max of 0 is no limit
	words    string      // the input in words, and the advice for another
}

// The intakes of the layer types.
var (
	Anything  = Intake{min: 1}
	Numbers   = Intake{shape.Float32, 1, 0, "numbers"}
	Features  = Intake{shape.Float32, 2, 0, "[batch,…,features]; put a reshape layer with a shape such as [1] before it"}
	Channels  = Intake{shape.Float32, 2, 0, "[batch,channels,…]; put a reshape layer before it"}
	Rows      = Intake{shape.Float32, 2, 3, "[batch,features] or [batch,time,features]; put a flatten layer before it"}
	Sequences = Intake{shape.Float32, 3, 3, "sequences [batch,time,width]; put an embedding or a reshape layer before it"}
	Images    = Intake{shape.Float32, 4, 4, "images [batch,channels,height,width]; put a reshape layer before it"}
	Tokens    = Intake{shape.Int32, 1, 0, "tokens, which are whole numbers (i32); use a dense layer for measured numbers, or data of tokens"}
)
