// Package phase shows that a phase without countable steps, such as planning, goes on.
// Package progress shows the steps of a training.
package phase
