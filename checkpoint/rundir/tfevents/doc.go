// Package tfevents encodes the records of TensorBoard's event files: named
// numbers by step.
//
//	b := tfevents.AppendVersion(nil, now)
//	b = tfevents.AppendScalars(b, now, 1, []tfevents.Scalar{{Tag: "step/loss", Value: 2.3}})
//
// A file is records one after the other, the version first: [AppendVersion],
// [AppendStart] where a resumed run goes on, and [AppendScalars]. [Whole] finds
// where the last whole record of some bytes ends.
package tfevents
