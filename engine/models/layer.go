package models

import "github.com/berth-ml/berth/engine/graph"

// Layer is one layer as a config describes it. Type decides which of the other
// fields are used.
type Layer struct {
	Type  string
	Name  string // unique; the prefix of its variables. Empty: type and index
	Block string // the top-level layer it belongs to. Empty: its own
	Pos   graph.Pos

	Units         int     // dense, lstm, gru: outputs
	In            int     // dense: expected number of inputs; 0: not checked
	Channels      int     // conv2d: outputs
	Kernel        int     // conv2d and pools: side of the window
	Stride        int     // conv2d and pools; 0: 1 for conv2d, Kernel for pools
	Padding       int     // conv2d and pools: zeros added on each side
	Groups        int     // conv2d: separate groups of channels; 0: 1
	NoBias        bool    // dense, conv2d, lstm, gru
	Activation    string  // dense, conv2d: applied to the output. Empty: none
	Rate          float64 // dropout, attention: probability that a number is dropped in training
	Eps           float64 // layernorm, batchnorm: added to the variance; 0: 1e-5
	Momentum      float64 // batchnorm: weight of the newest statistics; 0: 0.1
	Heads         int     // attention
	Last          bool    // lstm, gru: only the last position's output
	Bidirectional bool    // lstm, gru: from both ends
	Vocab         int     // embedding: rows
	Width         int     // embedding: columns
	Context       int     // positional_embedding: rows
	Tied          string  // dense: the variable whose transpose is the weight. Empty: a weight of its own
	InOut         bool    // dense: the weight is [in,out], as GPT-2 publishes it, not [out,in]
	Std           float64 // dense, attention, embeddings: deviation of normal initial weights, with zero biases; 0: as PyTorch
	ResidualStd   float64 // attention: Std of its output projection; 0: Std
	Shape         []int   // reshape, broadcast: of a sample; one axis of reshape may be -1 and is computed
	Perm          []int   // transpose: axes of a sample, from 0
	Start, Stop   []int   // slice: a range for each axis of a sample
	Axes          []int   // sum, mean, max: axes of a sample, from 0
	Keep          bool    // sum, mean, max: keep reduced axes, with size 1
	Axis          int     // concat: axis of a sample, from 0
	Scale         float64 // affine
	Shift         float64 // affine
	Body          []Layer // residual, concat
	Keys          any     // types of [RegisterLayer]: their Keys or a pointer to them; nil: the defaults
}
