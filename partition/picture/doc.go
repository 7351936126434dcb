// Package picture draws a plan as SVG: the blocks of the model with the cuts between
// stages, their devices and the bytes on each edge; below, the memory of each device
// and the predicted course of a step.
//
// [SVG] is the one function to know.
package picture
