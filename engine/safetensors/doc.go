// Package safetensors reads and writes the safetensors file format: eight
// bytes with the length of a JSON header, the header, and the tensors' bytes,
// row-major and little-endian, without gaps.
//
// Reading is lazy and strict. [Open] validates the whole header (bounds,
// gaps, overlaps, sizes) before it hands out a [File]; a tensor's bytes are
// read when asked for, raw or converted to what devices compute on. Nothing is
// allocated that the file's size does not justify, so files may come from
// anywhere. Writing is atomic: see [WriteFile].
//
// A compressed file can only be read from front to back: see [Stream].
//
// The types to know are [File], [Stream], [Tensor], [DType] and [Entry].
package safetensors
