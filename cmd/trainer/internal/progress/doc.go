// Package progress shows that a run goes on: a [Bar] per epoch on a terminal and
// lines elsewhere, and [Wait] before there is a step to count.
package progress
