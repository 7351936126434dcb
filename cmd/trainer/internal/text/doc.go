// Package text words numbers for people: counts, sizes, losses, durations.
package text
