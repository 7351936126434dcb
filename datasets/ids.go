package datasets

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"

	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// textIDs are the ids of a text's tokens, each in the fewest bytes that the
// tokenizer needs.
type textIDs struct {
	data    []byte
	width   int             // bytes of an id: 1, 2 or 4
	mapping *osfile.Mapping // that data is of; nil: data is memory
	sum     string          // SHA-256 of data in hex; "": it was not computed
}

// idWidth is the bytes of an id below count.
func idWidth(count int) int {
	switch {
	case count <= math.MaxUint8+1:
		return 1
	case count <= math.MaxUint16+1:
		return 2
	}
	return 4
}

func (t *textIDs) len() int { return len(t.data) / t.width }

// appendIDs appends ids of a width to data, which keeps its array as long as it
// has room.
func appendIDs(data []byte, width int, ids []uint32) []byte {
	for _, id := range ids {
		switch width {
		case 1:
			data = append(data, byte(id))
		case 2:
			data = binary.LittleEndian.AppendUint16(data, uint16(id))
		default:
			data = binary.NativeEndian.AppendUint32(data, id)
		}
	}
	return data
}

// at is the id at a position.
func (t *textIDs) at(i int) int32 {
	switch t.width {
	case 1:
		return int32(t.data[i])
	case 2:
		return int32(binary.LittleEndian.Uint16(t.data[2*i:]))
	}
	return int32(binary.NativeEndian.Uint32(t.data[4*i:]))
}

// slice is the ids from one position to another.
func (t *textIDs) slice(from, to int) textIDs {
	return textIDs{data: t.data[from*t.width : to*t.width], width: t.width, mapping: t.mapping}
}

// hash is the SHA-256 of the ids as they are stored, in hex.
func (t *textIDs) hash(ctx context.Context) (string, error) {
	if t.sum != "" {
		return t.sum, nil
	}
	h := sha256.New()
	err := t.guard(func() error {
		return inPieces(ctx, len(t.data), pieceBytes, func(from, to int) error {
			_, err := h.Write(t.data[from:to])
			return err
		})
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// guard runs f, which reads the ids.
func (t *textIDs) guard(f func() error) error {
	if t.mapping == nil {
		return f()
	}
	return t.mapping.Guard(f)
}

// column is the input of consecutive windows of that many ids.
func (t textIDs) column(window int) column {
	field := Field{"input", shape.I32(window)}
	switch t.width {
	case 1:
		return storedColumn(field, t.data, safetensors.U8)
	case 2:
		return storedColumn(field, t.data, safetensors.U16)
	}
	return newColumn(field, t.data)
}
