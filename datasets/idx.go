package datasets

import (
	"encoding/binary"
	"fmt"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// parseIDX reads the header of an IDX file of bytes. The file is two zeros, the
// element type (8: unsigned byte), the rank, each dimension as a big-endian word,
// then the elements.
func parseIDX(in *stream, rank int) (*array, error) {
	length := 4 + 4*rank
	head, err := in.head(length)
	if err != nil {
		return nil, err
	}
	if len(head) < length {
		return nil, fmt.Errorf("%w: %d bytes are too few for an IDX header: copy or download the file again", ErrFormat, len(head))
	}
	if head[0] != 0 || head[1] != 0 || head[2] != 8 || int(head[3]) != rank {
		return nil, fmt.Errorf("%w: IDX header %x, expected 000008%02x (bytes in %d dimensions): is it the right file?", ErrFormat, head[:4], rank, rank)
	}
	a := &array{dtype: safetensors.U8, shape: make(shape.Shape, rank), in: in}
	size := uint64(1)
	for i := range a.shape {
		d := binary.BigEndian.Uint32(head[4+4*i:])
		if d == 0 {
			return nil, fmt.Errorf("%w: IDX dimension %d is 0: the file has no elements", ErrFormat, i)
		}
		a.shape[i] = int(d)
		if size *= uint64(d); size > uint64(in.left) {
			return nil, fmt.Errorf("%w: the IDX header gives more elements than the file has bytes: copy or download it again", ErrFormat)
		}
	}
	if err := a.checkSize(); err != nil {
		return nil, err
	}
	return a, nil
}
