package configs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/internal/edit"
)

// didYouMean gives `; did you mean "x"?` for the nearest of the candidates, or
// the list of them where none is near.
func didYouMean(word string, candidates []string) string {
	if near := nearest(word, candidates); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if len(candidates) == 0 {
		return ""
	}
	return "; expected one of " + listNear(word, candidates)
}

// keysNear gives the keys that a name may mean: the key of that path, or else those
// with the name's last part, or else the shortest that starts with it, or else the nearest
// by its whole path, or else the nearest by last part.
func keysNear(name string, keys []string) []string {
	if slices.Contains(keys, name) {
		return []string{name}
	}
	byLast := map[string][]string{} // the keys by their last part
	for _, k := range keys {
		last := lastPart(k)
		byLast[last] = append(byLast[last], k)
	}
	if same := byLast[strings.ToLower(lastPart(name))]; same != nil {
		return same
	}
	if longer := startsWith(name, keys); longer != "" && len(lastPart(name)) >= leastStart {
		return []string{longer}
	}
	if near := edit.Nearest(name, keys, mostEdits(name)); near != "" {
		return []string{near}
	}
	return byLast[nearest(name, slices.Sorted(maps.Keys(byLast)))]
}

// lastPart is the last part of a key's path: lr of optimizer.lr.
func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// didYouMeanOneOf gives `; did you mean "x"?`, or lists the words if there are
// several.
func didYouMeanOneOf(words []string) string {
	if len(words) == 1 {
		return fmt.Sprintf("; did you mean %q?", words[0])
	}
	return "; did you mean one of " + list(words) + "?"
}

// nearest gives the candidate that a misspelt word most likely means: the one
// with the fewest edits, or else the shortest that starts with the word. It
// gives "" if none is near.
func nearest(word string, candidates []string) string {
	if near := edit.Nearest(word, candidates, mostEdits(word)); near != "" || len(word) < leastStart {
		return near
	}
	return startsWith(word, candidates)
}

// leastStart is how many letters of a word say which one is meant.
const leastStart = 3

// startsWith gives the shortest candidate that starts with a word, or "".
func startsWith(word string, candidates []string) string {
	best := ""
	for _, c := range candidates {
		if strings.HasPrefix(strings.ToLower(c), strings.ToLower(word)) && (best == "" || len(c) < len(best)) {
			best = c
		}
	}
	return best
}

// mostEdits is how many edits away from a word another one is near.
func mostEdits(word string) int {
	if len(word) < 5 {
		return 1 // two edits make another word of a short one: lstm, sum
	}
	return max(2, len(word)/3)
}

// most is the number of words that a message lists.
const most = 16

// list writes words with commas, at most the first few.
func list(words []string) string {
	if len(words) > most {
		return strings.Join(words[:most], ", ") + ", …"
	}
	return strings.Join(words, ", ")
}

// listNear is list with the words nearest to word first, if there are many.
func listNear(word string, words []string) string {
	word = strings.ToLower(word[:min(len(word), edit.LongestWord)])
	if word == "" || len(words) <= most {
		return list(words)
	}
	far := map[string]float64{} // the share of letters that differ
	for _, w := range words {
		far[w] = float64(edit.Distance(word, strings.ToLower(w))) / float64(max(len(word), len(w)))
	}
	sorted := slices.Clone(words)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(far[a], far[b]) })
	return list(sorted)
}
