package tokenizer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// Bytes is the tokenizer whose ids are the bytes of the text. The zero value is
// ready.
type Bytes struct{}

// BPE is the byte pair encoding with the same ids, which merges nothing: a
// tokenizer.json can hold it.
func (Bytes) BPE() *BPE {
	p := parts{kind: "bpe", split: []splitter{gpt2Split{}}, tokens: make([]string, 256)}
	for b := range p.tokens {
		p.tokens[b] = string([]byte{byte(b)})
	}
	t, err := newBPE(p)
	if err != nil {
		panic("BUG: the bytes as a byte pair encoding: " + err.Error())
	}
	return t
}

// Kind is bytes.
func (Bytes) Kind() string { return "bytes" }

// Len is 256.
func (Bytes) Len() int { return 256 }

// Encode appends the bytes of text. It never fails.
func (Bytes) Encode(_ context.Context, dst []uint32, text []byte) ([]uint32, error) {
	for _, b := range text {
		dst = append(dst, uint32(b))
	}
	return dst, nil
}

// EncodeRest is Encode.
func (b Bytes) EncodeRest(ctx context.Context, dst []uint32, text []byte) ([]uint32, error) {
	return b.Encode(ctx, dst, text)
}

// Decode appends the bytes that ids are.
func (Bytes) Decode(dst []byte, ids []uint32) []byte {
	for _, id := range ids {
		if id > 255 {
			dst = append(dst, Replacement...)
			continue
		}
		dst = append(dst, byte(id))
	}
	return dst
}

// Cut is the whole text.
func (Bytes) Cut(text []byte, _ bool) int { return len(text) }

// EndOfText: no byte separates documents.
func (Bytes) EndOfText() (uint32, bool) { return 0, false }

// Hash is the same for all.
func (Bytes) Hash() string {
	sum := sha256.Sum256([]byte("bytes"))
	return hex.EncodeToString(sum[:])
}
