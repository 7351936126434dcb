package datasets

import (
	"encoding/binary"
	"fmt"
)

// parseIDX gives the elements and dimensions of an IDX file of bytes. The file is
// two zeros, the element type (8: unsigned byte), the rank, each dimension as a
// big-endian word, then the elements.
func parseIDX(file []byte, rank int) ([]byte, []int, error) {
	header := 4 + 4*rank
	if len(file) < header {
		return nil, nil, fmt.Errorf("%w: %d bytes are too few for an IDX header: is the file whole?", ErrFormat, len(file))
	}
	if file[0] != 0 || file[1] != 0 || file[2] != 8 || int(file[3]) != rank {
		return nil, nil, fmt.Errorf("%w: IDX header %x, expected 000008%02x (bytes in %d dimensions): is it the right file?", ErrFormat, file[:4], rank, rank)
	}
	dims := make([]int, rank)
	size := uint64(1)
	for i := range dims {
		d := binary.BigEndian.Uint32(file[4+4*i:])
		if d == 0 {
			return nil, nil, fmt.Errorf("%w: IDX dimension %d is 0: the file has no elements", ErrFormat, i)
		}
		dims[i] = int(d)
		if size *= uint64(d); size > uint64(len(file)) {
			return nil, nil, fmt.Errorf("%w: the IDX header gives more elements than the file has bytes, %d: is it whole?", ErrFormat, len(file))
		}
	}
	if have := uint64(len(file) - header); size != have {
		return nil, nil, fmt.Errorf("%w: the IDX header gives %d elements, but %d bytes follow it: is the file whole?", ErrFormat, size, have)
	}
	return file[header:], dims, nil
}
