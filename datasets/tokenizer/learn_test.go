package tokenizer

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// plainLearn learns merges in the simplest way: it counts all pairs anew for each.
func plainLearn(text string, vocab int) (pairs []pair, tokens []string) {
	for b := range 256 {
		tokens = append(tokens, string([]byte{byte(b)}))
	}
	var list [][]uint32
	_ = gpt2Split{}.each(context.Background(), []byte(text), func(w []byte) error {
		ids, _ := Bytes{}.Encode(context.Background(), nil, w)
		list = append(list, ids)
		return nil
	})
	for len(tokens) < vocab-1 {
		counts := map[pair]int{}
		for _, w := range list {
			for i := 1; i < len(w); i++ {
				counts[pairOf(w[i-1], w[i])]++
			}
		}
		best, most := pair(0), 1
		for _, p := range slices.Sorted(maps.Keys(counts)) {
			if counts[p] > most {
				best, most = p, counts[p]
			}
		}
		if most < 2 {
			break
		}
		text := tokens[best.left()] + tokens[best.right()]
		id := slices.Index(tokens, text)
		if id < 0 {
			id, tokens = len(tokens), append(tokens, text)
		}
		if !slices.Contains(pairs, best) {
			pairs = append(pairs, best)
		}
		for i, w := range list {
			for j := 0; j+1 < len(w); j++ {
				if pairOf(w[j], w[j+1]) == best {
					w = slices.Replace(w, j, j+2, uint32(id))
				}
			}
			list[i] = w
		}
	}
	return pairs, tokens
}

// The merges are those of plain counting.
func TestLearn(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		b := make([]byte, 200+rnd.IntN(800))
		for i := range b {
			b[i] = "aabbcd  \n"[rnd.IntN(9)]
		}
		vocab := LeastVocab + rnd.IntN(120)
		got := learn(t, string(b), vocab, 1+rnd.IntN(4))
		pairs, tokens := plainLearn(string(b), vocab)
		if !slices.Equal(got.pairs, pairs) || !slices.Equal(got.tokens[:got.Len()-1], tokens) {
			t.Fatalf("seed %d: %d merges, want %d", seed, len(got.pairs), len(pairs))
		}
	}
}

// learn learns from a text in pieces that end between words.
func learn(t *testing.T, text string, vocab, pieces int) *BPE {
	t.Helper()
	l, err := NewLearner(LearnOptions{Vocab: vocab})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pieces {
		from, to := i*len(text)/pieces, (i+1)*len(text)/pieces
		count(l, text[wordStart(text, from):wordStart(text, to)])
	}
	b, err := l.Learn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A word of any length is learnt from, in pieces.
func TestLearnLongWord(t *testing.T) {
	for _, n := range []int{mostLearntWord, mostLearntWord + 1, 5*mostLearntWord + 7} {
		if b := learn(t, strings.Repeat("acgt", n/4+1)[:n], 262, 1); b.Len() != 262 {
			t.Errorf("a word of %d bytes: %d tokens", n, b.Len())
		}
	}
}

// count adds the words of a text.
func count(l *Learner, text string) {
	n := l.NewCounts()
	n.Add([]byte(text))
	l.Add(n)
}

// wordStart is the first place from at on where a word begins for sure.
func wordStart(text string, at int) int {
	for ; at > 0 && at < len(text); at++ {
		if text[at] == ' ' && text[at-1] >= 'a' {
			break
		}
	}
	return at
}

// Learning says how far it is, ends with its context, and refuses impossible
// sizes. <|endoftext|> in the text is no word.
func TestLearner(t *testing.T) {
	for _, n := range []int{-1, 256, MostVocab + 1} {
		if _, err := NewLearner(LearnOptions{Vocab: n}); !errors.Is(err, ErrLearn) {
			t.Errorf("%d tokens: %v", n, err)
		}
	}
	var last, all int
	l, err := NewLearner(LearnOptions{Vocab: 260, Progress: func(done, of int) { last, all = done, of }})
	if err != nil {
		t.Fatal(err)
	}
	count(l, strings.Repeat("hello hello"+EndOfText, 9))
	b, err := l.Learn(t.Context())
	if err != nil || last != 3 || all != 3 || b.Len() != 260 {
		t.Errorf("%d of %d merges, %d tokens, %v", last, all, b.Len(), err)
	}
	if ids, err := b.Encode(t.Context(), nil, []byte("hello"+EndOfText)); err != nil || ids[len(ids)-1] != 259 || len(ids) != 3 {
		t.Errorf("ids %v, %v", ids, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	count(l, "aaaa")
	if _, err := l.Learn(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Beyond its limit, a count forgets the rarest words.
func TestForget(t *testing.T) {
	w := newWords()
	for i, word := range []string{"a", "bb", "ccc", "dddd"} {
		w.add(word, int64(i+1))
	}
	w.forget()
	w.forget()
	if got := w.sorted(); len(got) != 1 || got[0] != (counted{"dddd", 4}) || w.bytes != 4 {
		t.Errorf("left: %v of %d bytes", got, w.bytes)
	}
}
