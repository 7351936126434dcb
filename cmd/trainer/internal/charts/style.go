package charts

import (
	"github.com/berth-ml/berth/internal/svg"
)

// shown is a text of at most n characters.
func shown(s string, n int) string {
	r := []rune(svg.Clean(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}
