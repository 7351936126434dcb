package tokenizer

import (
	"cmp"
	"slices"
)

// words counts the words of a text. Beyond its limits it forgets the rarest.
type words struct {
	counts map[string]int64
	bytes  int64 // of the words
	least  int64 // words were forgotten that were counted fewer times than this
}

// Limits on the words that are counted at a time.
const (
	mostWords      = 4 << 20
	mostWordsBytes = 256 << 20
	mostLearntWord = 4 << 10 // bytes; a longer word is counted in pieces
	longWordPiece  = 128     // bytes; a merge looks at whole words, so short pieces make it fast
)

func newWords() *words { return &words{counts: map[string]int64{}} }

// add counts a word n times.
func (w *words) add(word string, n int64) {
	if _, known := w.counts[word]; !known {
		w.bytes += int64(len(word))
	}
	w.counts[word] += n
}

// addAll adds another count, and then makes room.
func (w *words) addAll(other *words) {
	for word, n := range other.counts {
		w.add(word, n)
	}
	for len(w.counts) > mostWords || w.bytes > mostWordsBytes {
		w.forget()
	}
}

// forget removes the words that were counted least often: which ones depends on
// the counts alone.
func (w *words) forget() {
	w.least = max(2, 2*w.least)
	for word, n := range w.counts {
		if n < w.least {
			delete(w.counts, word)
			w.bytes -= int64(len(word))
		}
	}
}

// sorted lists the words, the most frequent first.
func (w *words) sorted() []counted {
	list := make([]counted, 0, len(w.counts))
	for word, n := range w.counts {
		list = append(list, counted{word, n})
	}
	slices.SortFunc(list, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.word, b.word))
	})
	return list
}

// counted is a word and its number of occurrences.
type counted struct {
	word  string
	count int64
}
