package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// plainFind finds tokens in the simplest way.
func plainFind(list []Added, text []byte) (all []found) {
	for at := 0; at < len(text); {
		best := -1
		for i, a := range list {
			if strings.HasPrefix(string(text[at:]), a.Text) && (best < 0 || len(a.Text) > len(list[best].Text)) {
				best = i
			}
		}
		if best < 0 {
			at++
			continue
		}
		all = append(all, found{int32(at), int32(best)})
		at += len(list[best].Text)
	}
	return all
}

// Tokens that overlap, hold others and share beginnings and ends are found as one
// place after the other finds them.
func TestAddedTokens(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	word := func(most int) string {
		b := make([]byte, 1+rnd.IntN(most))
		for i := range b {
			b[i] = "abc"[rnd.IntN(3)]
		}
		return string(b)
	}
	for range 300 {
		var list []Added
		for i := range rnd.IntN(9) {
			if text := word(5); !slices.ContainsFunc(list, func(a Added) bool { return a.Text == text }) {
				list = append(list, Added{ID: uint32(i), Text: text})
			}
		}
		text, set := []byte(word(60)), newAddedSet(list)
		got, want := set.find(nil, text), plainFind(list, text)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v in %s: %v, want %v", seed, list, text, got, want)
		}
		for place := range text {
			inside := slices.ContainsFunc(want, func(f found) bool { return int(f.from) < place && place < set.end(f) })
			if _, ok := set.around(got, place); ok != inside {
				t.Fatalf("seed %d: %v in %s: place %d is inside: %v, want %v", seed, list, text, place, ok, inside)
			}
		}
	}
}

// withAdded is a tokenizer of bytes, and of more tokens.
func withAdded(t *testing.T, texts ...string) *BPE {
	t.Helper()
	x := small(t)
	p := parts{kind: "bpe", tokens: slices.Clone(x.tokens), pairs: x.pairs, split: x.split, added: slices.Clone(x.added.list)}
	for _, text := range texts {
		p.added = append(p.added, Added{ID: uint32(len(p.tokens)), Text: text})
		p.tokens = append(p.tokens, text)
	}
	b, err := newBPE(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A text is encoded in time linear in its length, whatever tokens a file adds, and
// is cut in large pieces, too.
func TestAddedTokensAreFast(t *testing.T) {
	var ends, words []string
	for n := 1; n < mostAdded; n++ {
		ends = append(ends, strings.Repeat("a", n)+"z")
		words = append(words, strings.Repeat("ab ", n)[:n]+"z")
	}
	for name, c := range map[string]struct {
		tokens     []string
		unit, rest string
	}{
		"that all begin as the text does": {ends, "a", ""},
		"that all words may begin":        {append(words, "b "), "ab ", ""},
		"that follow each other":          {[]string{"aa", "aaa"}, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			x, began := withAdded(t, c.tokens...), time.Now()
			text := []byte(strings.Repeat(c.unit, 2*CutBytes/len(c.unit)))
			if n := x.Cut(text, false); n < pieceBytes-mostAdded {
				t.Errorf("cut at %d", n)
			}
			ids, err := x.Encode(t.Context(), nil, text)
			if err != nil || string(x.Decode(nil, ids)) != string(text) {
				t.Errorf("%d ids, %v", len(ids), err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Added tokens together have a limit.
func TestAddedTokensLimit(t *testing.T) {
	var list []addedJSON
	for i := range uint32(mostExtraBytes/mostAdded + 1) {
		list = append(list, addedJSON{ID: i, Content: fmt.Sprintf("%0*d", mostAdded, i)})
	}
	_, err := new(parts).readVocab([]byte(`{}`), list)
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "added_tokens: have more than 1 MiB") {
		t.Error(err)
	}
}

// A split pattern that takes too long is refused, and ends with its context.
func TestSlowPattern(t *testing.T) {
	s, err := newSplit(`(a+)+$`, true)
	if err != nil {
		t.Fatal(err)
	}
	s.(*patternSplit).re.MatchTimeout = 100 * time.Millisecond
	text := []byte(strings.Repeat("a", 40) + "b")
	never := func([]byte) error { return nil }
	if err := s.each(t.Context(), text, never); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "use another tokenizer") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if err := s.each(ctx, text, never); !errors.Is(err, stop) {
		t.Error(err)
	}
}
