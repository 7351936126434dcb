//go:build !unix

package checkpoint

// mapAhead is none: bbolt enlarges the file to what it maps.
func mapAhead() int { return 0 }
