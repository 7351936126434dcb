//go:build !linux

package command

import "math"

// addressLimit is no limit: the numbers of leastAddresses were measured on Linux.
func addressLimit() int64 { return math.MaxInt64 }
