package shape

import "unsafe"

// Bytes is the memory of a numeric slice, without a copy: little-endian bytes.
func Bytes[T float32 | float64 | int32 | int64 | uint16 | uint8](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(z)))
}

// View is bytes as a numeric slice, without a copy. The bytes must be aligned
// for T, as every buffer of this runtime is; a remainder shorter than one
// element is cut off.
func View[T float32 | float64 | int32 | int64 | uint16 | uint8](b []byte) []T {
	var z T
	n := len(b) / int(unsafe.Sizeof(z))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}
