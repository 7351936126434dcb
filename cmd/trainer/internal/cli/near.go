package cli

import "github.com/berth-ml/berth/internal/edit"

// nearest is the word that a misspelt one most likely means: the one with the
// fewest edits, if those are at most a third of its letters; "" for none.
func nearest(word string, words []string) string {
	best, least := "", len(word)/3+1
	for _, w := range words {
		if n := edit.Distance(word, w); n < least {
			best, least = w, n
		}
	}
	return best
}
