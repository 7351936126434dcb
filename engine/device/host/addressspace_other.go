//go:build !linux

package host

import "math"

// addressSpace is not limited, as far as is known.
func addressSpace() int64 { return math.MaxInt64 }
