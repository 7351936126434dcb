package tokenizer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"sync"
	"unicode"
	"unicode/utf8"
)

// BPE is a byte pair encoding of bytes. A text is split into words, and each word
// begins as its bytes. Then the two neighbours whose merge has the lowest rank
// become one token, until no merge applies.
type BPE struct {
	kind    string
	tokens  []string // by id: the bytes
	byteIDs [256]uint32
	merges  map[pair]merged
	pairs   []pair // by rank
	added   *addedSet
	split   []splitter
	whole   map[string]uint32 // words that are a token without any merge; nil: none
	coders  sync.Pool
	hash    func() string
	packed  func() ([]byte, error) // for a checkpoint; see Saved
}

// pair is two neighbouring tokens.
type pair uint64

func pairOf(left, right uint32) pair { return pair(left)<<32 | pair(right) }

func (p pair) left() uint32 { return uint32(p >> 32) }

func (p pair) right() uint32 { return uint32(p) }

// merged is the outcome of a merge.
type merged struct{ rank, id uint32 }

// none is the outcome for neighbours that are not merged.
var none = merged{rank: math.MaxUint32}

// parts are all that decides a BPE.
type parts struct {
	kind   string
	tokens []string // by id: the bytes, or an added token's text
	pairs  []pair   // by rank
	added  []Added
	split  []splitter
	whole  bool // a word that is a token is not merged from its bytes
}

// newBPE checks that the parts fit together.
func newBPE(p parts) (*BPE, error) {
	t := &BPE{kind: p.kind, tokens: p.tokens, pairs: p.pairs, split: p.split, added: newAddedSet(p.added)}
	t.coders.New = func() any { return newCoder(t) }
	t.hash, t.packed = sync.OnceValue(t.computeHash), sync.OnceValues(t.pack)
	ids := make(map[string]uint32, len(p.tokens))
	for id, text := range p.tokens {
		ids[text] = uint32(id)
	}
	for _, a := range p.added { // no merge makes them
		delete(ids, a.Text)
	}
	for b := range t.byteIDs {
		id, ok := ids[string([]byte{byte(b)})]
		if !ok {
			return nil, fmt.Errorf("%w: byte %#02x has no token: it is not byte-level", ErrFormat, b)
		}
		t.byteIDs[b] = id
	}
	if err := t.fillMerges(ids); err != nil {
		return nil, err
	}
	if p.whole {
		t.whole = ids
	}
	return t, nil
}

func (t *BPE) fillMerges(ids map[string]uint32) error {
	t.merges = make(map[pair]merged, len(t.pairs))
	for rank, p := range t.pairs {
		text := t.tokens[p.left()] + t.tokens[p.right()]
		id, ok := ids[text]
		if !ok {
			return fmt.Errorf("%w: merge %d makes %q, which is not in the vocabulary", ErrFormat, rank, text)
		}
		if _, twice := t.merges[p]; twice {
			return fmt.Errorf("%w: merge %d, which makes %q, is there twice", ErrFormat, rank, text)
		}
		t.merges[p] = merged{uint32(rank), id}
	}
	return nil
}

// Kind is gpt2 for the one inside the binary, and bpe otherwise.
func (t *BPE) Kind() string { return t.kind }

// Len is the number of tokens, with the added ones.
func (t *BPE) Len() int { return len(t.tokens) }

// Added are the tokens that are found before a text is split into words, by id. The
// caller must not change them.
func (t *BPE) Added() []Added { return t.added.list }

// EndOfText is the id of <|endoftext|>.
func (t *BPE) EndOfText() (uint32, bool) {
	a, ok := t.added.byText[EndOfText]
	return a.ID, ok
}

// Hash is of the tokenizer.json that Write writes, whose form therefore never changes
// for what there is now.
func (t *BPE) Hash() string { return t.hash() }

func (t *BPE) computeHash() string {
	h := sha256.New()
	if err := t.Write(h); err != nil {
		panic("BUG: hash of a tokenizer: " + err.Error())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Decode appends the bytes of ids.
func (t *BPE) Decode(dst []byte, ids []uint32) []byte {
	for _, id := range ids {
		if int64(id) >= int64(len(t.tokens)) {
			dst = append(dst, Replacement...)
			continue
		}
		dst = append(dst, t.tokens[id]...)
	}
	return dst
}

// Encode appends the ids of text, until ctx is done. Bytes that are not UTF-8 are
// encoded as well.
func (t *BPE) Encode(ctx context.Context, dst []uint32, text []byte) ([]uint32, error) {
	c := t.coders.Get().(*coder)
	defer t.coders.Put(c)
	for len(text) > 0 {
		n := t.Cut(text, true)
		if err := c.piece(ctx, text[:n]); err != nil {
			return dst, err
		}
		dst = append(dst, c.out...)
		text = text[n:]
	}
	return dst, nil
}

// Lengths of the pieces that a text is cut into, in bytes.
const (
	pieceBytes = 256 << 10
	mostAdded  = 1 << 10 // of the longest added token
	// CutBytes is a text's length from which Cut always finds a place.
	CutBytes = pieceBytes + mostAdded + utf8.UTFMax
)

// Cut finds the end of a word where the text may be cut, as [Tokenizer.Cut] says. What follows
// the place does not matter: a longer beginning of the same text is cut at the same place.
func (t *BPE) Cut(text []byte, ended bool) int {
	return cut(text, ended, t.added)
}

func cut(text []byte, ended bool, added *addedSet) int {
	switch {
	case ended && len(text) <= pieceBytes:
		return len(text)
	case !ended && len(text) < CutBytes:
		return 0
	}
	tokens := added.find(nil, text[:min(len(text), pieceBytes+mostAdded)])
	for at := pieceBytes; at > 0; at-- {
		if !endsWord(text, at) {
			continue
		}
		if _, inside := added.around(tokens, at); !inside {
			return at
		}
	}
	// The text has no words. A real one is never cut here.
	at := wholeChars(text[:pieceBytes])
	if f, inside := added.around(tokens, at); inside {
		return int(f.from)
	}
	return at
}

// endsWord reports whether a word ends at a place in text for every split pattern
// in use: before a space, unless white space is before it; after a letter, unless
// one follows, or a mark, number or apostrophe; and after a number before white
// space.
func endsWord(text []byte, at int) bool {
	if !utf8.RuneStart(text[at]) {
		return false
	}
	next, _ := utf8.DecodeRune(text[at:])
	last, _ := utf8.DecodeLastRune(text[:at])
	switch {
	case next == ' ':
		return !unicode.IsSpace(last)
	case unicode.IsLetter(last):
		return next != '\'' && next != '’' && !unicode.In(next, unicode.L, unicode.M, unicode.N)
	}
	return unicode.IsNumber(last) && unicode.IsSpace(next)
}
