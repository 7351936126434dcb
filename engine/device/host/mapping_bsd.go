//go:build unix && !linux

package host

const noReserve = 0 // memory that is not touched is not counted

// adviseHuge does nothing: the system makes large pages by itself.
func adviseHuge([]byte) {}
