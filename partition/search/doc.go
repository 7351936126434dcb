// Package search cuts a chain of blocks into stages and chooses their devices. It
// knows blocks by number, and their costs alone.
//
//  1. Lines: the devices that the stages may be on, in order. Devices of one class
//     count as one (lines.go).
//  2. For the most promising lines, a dynamic program over (blocks placed, stages
//     used) finds the cuts with the least bottleneck that fit in memory (cuts.go).
//  3. The best of all these are simulated, and the fastest is taken (search.go). Of a
//     small problem, all ways are (all.go).
//
// The types to know are [Problem], [Device] and [Way].
package search
