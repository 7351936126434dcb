// Package files opens files of data: regular ones, packed or not, whose unpacked size has a
// bound.
//
// [Open] gives a [Stream] of a file's contents. A file is unpacked by its contents, whatever its
// name: gzip and Zstandard are known. [Lines] reads a stream line by line.
package files
