//go:build !linux

package host

// leastAddresses are not limited, as far as is known.
func leastAddresses() addresses { return unlimited }
