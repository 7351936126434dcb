package edit

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
