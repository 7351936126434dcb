// Package curves reads the metrics.jsonl of a run as curves while the run trains, and thins them to a width.
//
//	h := curves.Open("runs/digits")
//	err := h.Read(ctx) // again whenever the file has grown: only what is new is read
//	…
//	x, y := h.Thin(curves.Name{Field: "loss"}, h.Axis("step"), curves.Span{}, 600)
//
// [History.Indexed] has it begin with an index in the user's cache, which holds what was read before (index.go).
//
// The types to know are [History], which is what a run has measured, and [Axis], which gives a step its place.
//
// # Why least and largest?
//
// A screen of 600 columns cannot show a million steps. A mean of each column hides the spike that a user looks for, and every
// thousandth point misses it. The least and the largest of each column draw the same picture as all points do.
package curves
