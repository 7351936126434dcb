package checkpoint

import (
	"github.com/klauspost/compress/zstd"
)

// Any number of goroutines may use both at a time.
var (
	packer = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),    // chunks have a hash
		zstd.WithSingleSegment(true))) // so that every frame states its size
	unpacker = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxChunk)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic("BUG: zstd: " + err.Error())
	}
	return v
}

// pack compresses the contents of a chunk with zstd. It is nil if that saves less
// than a twentieth.
func pack(data []byte) []byte {
	out := packer.EncodeAll(data, make([]byte, 0, len(data)))
	if len(out) > len(data)-len(data)/20 {
		return nil
	}
	return out
}

// unpack decompresses into dst, which must have the size of the contents. A frame
// that states another size is refused, so nothing beyond dst is allocated.
func unpack(dst, packed []byte) error {
	var h zstd.Header
	if err := h.Decode(packed); err != nil {
		return damaged("compressed chunk: %w", err)
	}
	if !h.HasFCS || h.FrameContentSize != uint64(len(dst)) || h.WindowSize > maxChunk {
		return damaged("compressed chunk: it states a size of %d bytes, not %d", h.FrameContentSize, len(dst))
	}
	out, err := unpacker.DecodeAll(packed, dst[:0:len(dst)])
	if err != nil {
		return damaged("compressed chunk: %w", err)
	}
	if len(out) != len(dst) || len(out) > 0 && &out[0] != &dst[0] {
		return damaged("compressed chunk: it has %d bytes, not %d", len(out), len(dst))
	}
	return nil
}
