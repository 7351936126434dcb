package datasets

// Dataset is opened data. Train and Val share its memory.
type Dataset struct {
	Name  string // the source, with the path if it has one
	Train *Part
	Val   *Part // nil if all samples are for training
	Info  Info
}

// Info describes a dataset without its samples. It encodes as JSON, and is all
// that OpenInputs needs of the training data.
type Info struct {
	Inputs []Field
	// Target is i32[] (a class), i32[T] (a class per position) or f32[...]
	// (numbers to predict).
	Target     Field
	Classes    int      // number of classes of an i32 target; 0 otherwise
	ClassNames []string // by class; nil if they have none
	// Tokens is the number of distinct ids in an i32 input; 0 for f32 inputs.
	Tokens   int
	Vocab    *Vocabulary `json:",omitempty"` // text only
	Features []string    `json:",omitempty"` // csv only: names of the feature columns
	Scaling  *Scaling    `json:",omitempty"` // of standardised features
	// TargetScaling is the scaling of standardised targets. Undo it on the
	// answers of a model.
	TargetScaling *Scaling `json:",omitempty"`
	// Fingerprint is the SHA-256, in hex, of the decoded samples and of the
	// options that choose and order them. With equal fingerprints, training reads
	// the same samples in the same order.
	Fingerprint string
}
