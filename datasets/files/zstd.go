package files

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-ml/berth/datasets/fault"
)

// mostWindow is the memory that unpacking may look back on. The zstd command unpacks no more by
// itself either.
const mostWindow = 128 << 20

// isZstd reports whether a file that begins so is packed by Zstandard. It may begin with a frame
// to skip, as parallel packers write it.
func isZstd(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	magic := binary.LittleEndian.Uint32(b)
	return magic == 0xfd2fb528 || magic&^0xf == 0x184d2a50
}

// zstdReader unpacks a file. Its decoder has no goroutine, so it needs no Close.
type zstdReader struct {
	packed  *keptError
	decoder *zstd.Decoder
}

// keptError reads on, and keeps the error that reading ends with.
type keptError struct {
	r   io.Reader
	err error
}

func (k *keptError) Read(p []byte) (n int, err error) {
	if n, err = k.r.Read(p); err != nil && err != io.EOF {
		k.err = err
	}
	return n, err
}

func newZstd(r *bufio.Reader) (*zstdReader, error) {
	in := &keptError{r: r}
	d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
	return &zstdReader{in, d}, err
}

func (z *zstdReader) Read(p []byte) (int, error) {
	n, err := z.decoder.Read(p)
	switch {
	case err == nil || err == io.EOF:
	case z.packed.err != nil:
		err = z.packed.err
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		err = fmt.Errorf("%w: unpacking it takes more than %d MiB of memory: unpack it first", fault.ErrFormat, mostWindow>>20)
	case errors.Is(err, io.ErrUnexpectedEOF):
	default:
		err = fmt.Errorf("%w: the packed file is damaged (%v): copy or download it again", fault.ErrFormat, err)
	}
	return n, err
}
