package safetensors

import (
	"bytes"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/gunzip"
)

// unpacker starts to unpack a file.
type unpacker func(r io.Reader) (io.ReadCloser, error)

// maxWindow bounds the memory in bytes that unpacking takes, for files that ask for
// more than zstd --long does.
const maxWindow = 128 << 20

// The formats by the first bytes of their files.
var unpackers = map[string]unpacker{
	"\x1f\x8b": func(r io.Reader) (io.ReadCloser, error) {
		z, err := gunzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		return z, nil
	},
	"\x28\xb5\x2f\xfd": func(r io.Reader) (io.ReadCloser, error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	},
}

// unpackerOf finds the format of a file by its first bytes; nil if it is not
// compressed. The header of a plain file begins with '{' behind its length.
func unpackerOf(r io.ReaderAt) unpacker {
	var first [lengthBytes + 1]byte
	if n, _ := r.ReadAt(first[:], 0); n == len(first) && first[lengthBytes] == '{' {
		return nil
	}
	for magic, u := range unpackers {
		if bytes.HasPrefix(first[:], []byte(magic)) {
			return u
		}
	}
	return nil
}

// Compressed reports whether the file at path is compressed in a format that
// OpenStream reads: gzip or zstd.
func Compressed(path string) bool {
	f, err := osfile.Open(path, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	return unpackerOf(f) != nil
}
