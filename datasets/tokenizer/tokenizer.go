package tokenizer

import (
	"context"
	"errors"
	"fmt"
)

// Tokenizer turns text into ids and back. It never changes and is safe for
// concurrent use.
type Tokenizer interface {
	// Kind is char, bytes, gpt2 or bpe.
	Kind() string
	// Len is the number of tokens: ids are below it.
	Len() int
	// Encode appends the ids of text to dst. It fails with an [*UnknownError] at a
	// character that has no token, which only chars lack, and where the split
	// pattern of a tokenizer.json takes too long. It ends early when ctx is done.
	Encode(ctx context.Context, dst []uint32, text []byte) ([]uint32, error)
	// EncodeRest is Encode for the rest of a text, behind a place that Cut gave. The
	// beginning of a text may be another one: some tokenizers put a space before it.
	EncodeRest(ctx context.Context, dst []uint32, text []byte) ([]uint32, error)
	// Decode appends the text of ids to dst. An id without a token becomes U+FFFD.
	// The text of a single id may end within a character, except for chars. A space
	// that Encode put before a text comes with it.
	Decode(dst []byte, ids []uint32) []byte
	// Cut is the length of a beginning of text that can be encoded apart from the
	// rest with the same ids; 0 if that takes more text. ended says that no more
	// text follows. It is positive for any text of [CutBytes] or more.
	Cut(text []byte, ended bool) int
	// EndOfText is the id of the token that separates documents; false if there is
	// none.
	EndOfText() (id uint32, ok bool)
	// Hash is a SHA-256 in hex. Equal hashes mean equal ids for every text.
	Hash() string
}

// The causes of errors.
var (
	ErrFormat = errors.New("the tokenizer cannot be read") // a file; the message says where
	ErrLearn  = errors.New("cannot learn a tokenizer")
)

// Replacement is the text of an id without a token.
const Replacement = "\uFFFD"

// UnknownError is a character that a tokenizer has no token for.
type UnknownError struct {
	Offset int // of the character, in bytes from the beginning of the text
	Char   rune
	Len    int // tokens that there are
}

// Error names the character.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("%q is not among the %d characters of the vocabulary", e.Char, e.Len)
}

// Text is the text of ids, which may be those of a tensor.
func Text[T int32 | uint32](t Tokenizer, ids ...T) string {
	list := make([]uint32, len(ids))
	for i, id := range ids {
		list[i] = uint32(id)
	}
	return string(t.Decode(nil, list))
}

// End encodes a text of any length, and gives its number of tokens with the last of them,
// at most keep. It takes memory for a piece of the text, not for all of it.
func End(ctx context.Context, t Tokenizer, text string, keep int) (last []uint32, n int, err error) {
	var piece []byte
	var ids []uint32
	for at := 0; at < len(text); at += len(piece) {
		if err := context.Cause(ctx); err != nil {
			return nil, n, err
		}
		piece = append(piece[:0], text[at:min(len(text), at+CutBytes)]...)
		piece = piece[:t.Cut(piece, at+len(piece) == len(text))]
		if ids == nil {
			ids = make([]uint32, 0, len(piece))
		}
		encode := t.Encode
		if at > 0 {
			encode = t.EncodeRest
		}
		if ids, err = encode(ctx, ids[:0], piece); err != nil {
			if unknown, ok := errors.AsType[*UnknownError](err); ok {
				unknown.Offset += at
			}
			return nil, n, err
		}
		n += len(ids)
		last = append(last, ids[max(0, len(ids)-keep):]...)
		last = append(last[:0], last[max(0, len(last)-keep):]...)
	}
	return last, n, nil
}
