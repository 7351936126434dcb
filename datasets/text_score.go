package datasets

import (
	"context"
	"errors"
	"io"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
)

// TargetBytes is the number of target tokens in a part of a text, and the bytes
// that they stand for. It reads the whole part.
func (p *Part) TargetBytes(ctx context.Context, t tokenizer.Tokenizer) (tokens, bytes int64, err error) {
	sizes := make([]int64, t.Len())
	var text []byte
	for id := range sizes {
		text = t.Decode(text[:0], []uint32{uint32(id)})
		sizes[id] = int64(len(text))
	}
	const batch = 64
	if p.Buckets() != nil {
		p = p.InOrder() // it may be in batches of another size
	}
	dst := p.Alloc(batch)
	target := len(dst) - 1
	size := int(p.Fields()[target].Meta.Elems())
	for c := (Cursor{}); ctx.Err() == nil; c.Index += batch {
		n, err := p.Read(c, batch, dst)
		if errors.Is(err, io.EOF) {
			return tokens, bytes, nil
		}
		if err != nil {
			return 0, 0, err
		}
		for _, id := range shape.View[int32](dst[target])[:n*size] {
			if id != Padding {
				bytes += sizes[id]
				tokens++
			}
		}
		if n < batch {
			return tokens, bytes, nil
		}
	}
	return 0, 0, context.Cause(ctx)
}
