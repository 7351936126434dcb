package tokenizer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// BPE is a byte pair encoding. A text is split into words, and each word begins as its
// bytes, or as its characters where the tokenizer is like SentencePiece's. Then the two
// neighbours whose merge has the lowest rank become one token, until no merge applies.
type BPE struct {
	kind    string
	tokens  []string // by id: the bytes
	byteIDs [256]uint32
	merges  map[pair]merged
	pairs   []pair    // by rank
	all     []Added   // by id
	added   *addedSet // those that are looked for in the text as it is
	later   *addedSet // those that are looked for once a text is normalized
	cuts    *addedSet // all of them, as they are in a text, for Cut
	nfc     bool      // texts are composed: Unicode's normal form C
	split   []splitter
	spaces  *sentencePiece    // nil: it is byte-level
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
	nfc    bool
	split  []splitter
	spaces *sentencePiece
	whole  bool // a word that is a token is not merged from its bytes
}

// newBPE checks that the parts fit together.
func newBPE(p parts) (*BPE, error) {
	t := &BPE{kind: p.kind, tokens: p.tokens, pairs: p.pairs, nfc: p.nfc, split: p.split, spaces: p.spaces}
	t.coders.New = func() any { return newCoder(t) }
	t.hash, t.packed = sync.OnceValue(t.computeHash), sync.OnceValues(t.pack)
	t.addAll(p.added)
	var ids map[string]uint32
	var err error
	if p.spaces != nil {
		ids, err = p.spaces.fill(t.pairs)
	} else {
		ids, err = t.fillBytes(p.added)
	}
	if err != nil {
		return nil, err
	}
	if err := t.fillMerges(ids); err != nil {
		return nil, err
	}
	if p.whole {
		t.whole = ids
	}
	return t, nil
}

// addAll makes the sets of added tokens.
func (t *BPE) addAll(all []Added) {
	var now, later, cuts []Added
	for _, a := range all {
		switch {
		case !a.Normalized:
			now, cuts = append(now, a), append(cuts, a)
		case t.spaces != nil:
			a.Text = t.spaces.normalized(a.Text)
			later = append(later, a)
			a.Text = strings.ReplaceAll(a.Text, mark, " ")
			cuts = append(cuts, a)
		default:
			a.Text = norm.NFC.String(a.Text)
			later, cuts = append(later, a), append(cuts, a)
		}
	}
	t.all, t.added, t.later, t.cuts = byID(all), newAddedSet(now), newAddedSet(later), newAddedSet(cuts)
}

// fillBytes finds the tokens of bytes, and gives the ids of all by their bytes.
func (t *BPE) fillBytes(added []Added) (map[string]uint32, error) {
	ids := make(map[string]uint32, len(t.tokens))
	for id, text := range t.tokens {
		ids[text] = uint32(id)
	}
	for _, a := range added { // no merge makes them
		delete(ids, a.Text)
	}
	for b := range t.byteIDs {
		id, ok := ids[string([]byte{byte(b)})]
		if !ok {
			return nil, fmt.Errorf("%w: byte %#02x has no token: it is not byte-level", ErrFormat, b)
		}
		t.byteIDs[b] = id
	}
	return ids, nil
}

func (t *BPE) fillMerges(ids map[string]uint32) error {
	t.merges = make(map[pair]merged, len(t.pairs))
	for rank, p := range t.pairs {
		text := t.name(p.left()) + t.name(p.right())
		id, ok := ids[text]
		if !ok {
			return fmt.Errorf("%w: merge %d makes %q, which is not in the vocabulary", ErrFormat, rank, text)
		}
		t.merges[p] = merged{uint32(rank), id} // of a merge that is there twice, the last rank counts, as in Hugging Face's tokenizers
	}
	return nil
}

// name is what merges know a token by: its bytes, or what the file calls it.
func (t *BPE) name(id uint32) string {
	if t.spaces != nil {
		return t.spaces.names[id]
	}
	return t.tokens[id]
}

// Kind is gpt2 for the one inside the binary, and bpe otherwise.
func (t *BPE) Kind() string { return t.kind }

// Len is the number of tokens, with the added ones.
func (t *BPE) Len() int { return len(t.tokens) }

// Added are the tokens that are found before a text is split into words, by id. The
// caller must not change them.
func (t *BPE) Added() []Added { return t.all }

// EndOfText is the id of <|endoftext|>, or of what other families have in its place.
func (t *BPE) EndOfText() (uint32, bool) { return t.firstAdded(endsOfText) }

// BeginOfText is the id of the token with which others begin a text; false if there is none.
func (t *BPE) BeginOfText() (uint32, bool) { return t.firstAdded(beginsOfText) }

// firstAdded is the id of the first of some added tokens that is there.
func (t *BPE) firstAdded(texts []string) (uint32, bool) {
	for _, text := range texts {
		for _, a := range t.all {
			if a.Text == text {
				return a.ID, true
			}
		}
	}
	return 0, false
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
	return t.encode(ctx, dst, text, begins)
}

// EncodeRest is Encode for the rest of a text behind a place that Cut gave.
func (t *BPE) EncodeRest(ctx context.Context, dst []uint32, text []byte) ([]uint32, error) {
	return t.encode(ctx, dst, text, goesOn)
}

func (t *BPE) encode(ctx context.Context, dst []uint32, text []byte, at place) ([]uint32, error) {
	c := t.coders.Get().(*coder)
	defer t.coders.Put(c)
	for len(text) > 0 {
		n := t.Cut(text, true)
		if err := c.piece(ctx, text[:n], at); err != nil {
			return dst, err
		}
		dst = append(dst, c.out...)
		text, at = text[n:], goesOn
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
	if t.spaces != nil {
		return cut(text, ended, t.cuts, t.spaces.endsWord)
	}
	return cut(text, ended, t.cuts, endsWord)
}

// cut is Cut where ends says whether a word ends at a place.
func cut(text []byte, ended bool, added *addedSet, ends func(text []byte, at int) bool) int {
	switch {
	case ended && len(text) <= pieceBytes:
		return len(text)
	case !ended && len(text) < CutBytes:
		return 0
	}
	tokens := added.find(nil, text[:min(len(text), pieceBytes+mostAdded)])
	for at := pieceBytes; at > 0; at-- {
		if !ends(text, at) {
			continue
		}
		// Behind an added token, the next piece would not know that it follows one.
		if _, inside := added.around(tokens, at); !inside && !added.endsAt(tokens, at) {
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
