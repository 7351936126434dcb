package edit

import "strings"

// LongestWord bounds the words that are compared: no name is that long, and
// comparing is quadratic.
const LongestWord = 64

// Nearest is the word that needs the fewest edits to become a misspelt one, at most
// edits and fewer than it has letters; "" if there is none. Upper and lower case are
// the same.
func Nearest(misspelt string, words []string, edits int) string {
	if len(misspelt) > LongestWord {
		return ""
	}
	best, least := "", edits+1
	for _, w := range words {
		if d := Distance(strings.ToLower(misspelt), strings.ToLower(w)); d < least && d < len(w) {
			best, least = w, d
		}
	}
	return best
}

// Distance counts the insertions, deletions, substitutions and swaps of
// neighbours that turn a into b.
func Distance(a, b string) int {
	// Rows i-2, i-1 and i of the table of distances between a[:i] and b[:j].
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := 1
			if a[i-1] == b[j-1] {
				substitution = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+substitution)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
