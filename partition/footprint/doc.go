// Package footprint says how much memory neighbouring blocks take as one stage. It serves the
// search for a cut, which asks about every range of blocks.
//
// [Meter.Measure] counts a range's values, which takes time by its nodes (measure.go). [Bounds]
// bounds the result from both sides in constant time (bounds.go), the working memory of its
// segments by scratch.go.
//
// # Why is the memory of a stage bounded before it is measured?
//
// Under a limit, the dynamic program asks about every range of blocks, and measuring one takes time by its
// nodes. Most of a stage's memory is the sum of its blocks' own: variables, results that backward needs,
// sums. The rest crosses the two ends of the range, or is scratch, and both have bounds. The two bounds of
// a range are a percent apart, so a few ranges near the limit are measured and the others are not. Where
// stages share a device, the upper bound alone decides, since exact sums would be needed of all pairs of
// ranges.
package footprint
