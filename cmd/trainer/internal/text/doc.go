// Package text words numbers for people: losses, metrics, rates, durations. Counts and sizes
// are worded by internal/units.
package text
