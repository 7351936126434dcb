// Package images reads pictures into bytes of one size: PNG, JPEG, GIF and WebP, of 8 or 16 bits, grey or
// in colour, turned as their EXIF data says.
//
// [Look] reads the header of a file in memory, and refuses one that is no picture or has more than
// [MostPixels]. [Decode] decodes, turns, scales and orders the pixels by channel. Files may be hostile: what
// is wrong is an error with its reason, never a panic, and [Header.Memory] bounds the memory beforehand.
package images
