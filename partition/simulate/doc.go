// Package simulate predicts the course of a step: it takes the launches of a plan and the
// speeds of its devices, and gives a [Prediction], each launch and each copy in time.
//
// Launches of a device run one after the other. Copies overlap them (prediction.go), also
// those for lack of memory (moving.go).
package simulate
