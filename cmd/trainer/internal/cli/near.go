package cli

// nearest is the word that a misspelt one most likely means: the one with the
// fewest edits, if those are at most a third of its letters; "" for none.
func nearest(word string, words []string) string {
	best, least := "", len(word)/3+1
	for _, w := range words {
		if n := edits(word, w); n < least {
			best, least = w, n
		}
	}
	return best
}

// edits is how many letters have to be inserted, deleted, replaced or swapped
// with the next to make b of a.
func edits(a, b string) int {
	// row[j] is the edits from the letters of a so far to b[:j]; before and
	// twoBefore are the rows of one and two letters less.
	var twoBefore []int
	before := make([]int, len(b)+1)
	for j := range before {
		before[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			replaced := before[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(before[j+1]+1, row[j]+1, replaced)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], twoBefore[j-1]+1)
			}
		}
		twoBefore, before = before, row
	}
	return before[len(b)]
}
