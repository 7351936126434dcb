//go:build !linux

package host

// adviseHuge does nothing where huge pages cannot be asked for.
func adviseHuge([]byte) {}
