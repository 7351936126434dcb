// Package progress shows that a training goes on: a [Bar] per epoch on a terminal and
// lines elsewhere.
package progress
