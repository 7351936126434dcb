//go:build !amd64

package cpu

// pause lets a moment pass without touching memory.
func pause() {
	for range 16 {
	}
}
