package tokenizer

import (
	"cmp"
	"slices"
)

// Added is a token that is found in the text before it is split into words, such
// as <|endoftext|>.
type Added struct {
	ID      uint32
	Text    string
	Special bool // it marks something, and is no text
	// Normalized: it is looked for in the text as the tokenizer changes it before it
	// splits it, and is changed in the same way.
	Normalized bool
}

// EndOfText is the text of the token that separates documents, in a tokenizer that is
// learnt here.
const EndOfText = "<|endoftext|>"

// endsOfText are the names of that token, in GPT-2 and Qwen, Llama 3, and those like
// SentencePiece's. Of several, the first counts.
var endsOfText = []string{EndOfText, "<|end_of_text|>", "</s>", "<eos>"}

// beginsOfText are the names of the token that begins a text, in Llama 3 and those like
// SentencePiece's.
var beginsOfText = []string{"<|begin_of_text|>", "<s>", "<bos>"}

// byID is a list of added tokens, sorted.
func byID(list []Added) []Added {
	return slices.SortedFunc(slices.Values(list), func(a, b Added) int { return cmp.Compare(a.ID, b.ID) })
}

// addedSet finds added tokens in text, in time linear in the text whatever the
// tokens are: an automaton of Aho and Corasick reads the text from its end. Its
// state is the longest beginning of the text from here on that some token ends
// with.
type addedSet struct {
	list    []Added        // by id
	last    [256]int32     // the state after a token's last byte; 0: no token ends with it
	before  map[edge]int32 // the state after one more byte before
	shorter []int32        // by state: the next shorter one that may go on where this one cannot
	token   []int32        // by state: the longest token that begins here, as an index of list; -1: none
}

// edge is a state above, and a byte.
type edge uint64

// found is a token in a text.
type found struct {
	from  int32 // place of its first byte
	index int32 // in addedSet.list
}

// newAddedSet makes the set of some tokens.
func newAddedSet(list []Added) *addedSet {
	s := &addedSet{
		list: byID(list), before: map[edge]int32{}, shorter: []int32{0}, token: []int32{-1},
	}
	longest := 0
	for _, a := range s.list {
		longest = max(longest, len(a.Text))
	}
	// All tokens grow by a byte at a time: a state's shorter ones are there when it is made.
	states := make([]int32, len(s.list))
	for n := 1; n <= longest; n++ {
		for i, a := range s.list {
			if n > len(a.Text) {
				continue
			}
			states[i] = s.grow(states[i], a.Text[len(a.Text)-n])
			if n == len(a.Text) {
				s.token[states[i]] = int32(i)
			}
		}
	}
	return s
}

// grow is the state of one more byte before, which it makes if it is new.
func (s *addedSet) grow(state int32, b byte) int32 {
	to, known := s.before[edge(state)<<8|edge(b)]
	if state == 0 {
		to, known = s.last[b], s.last[b] != 0
	}
	if known {
		return to
	}
	to = int32(len(s.shorter))
	if state == 0 {
		s.shorter, s.last[b] = append(s.shorter, 0), to
	} else {
		s.shorter = append(s.shorter, s.step(s.shorter[state], b))
		s.before[edge(state)<<8|edge(b)] = to
	}
	s.token = append(s.token, s.token[s.shorter[to]])
	return to
}

// step is the state after one more byte before.
func (s *addedSet) step(state int32, b byte) int32 {
	for state != 0 {
		if to, ok := s.before[edge(state)<<8|edge(b)]; ok {
			return to
		}
		state = s.shorter[state]
	}
	return s.last[b]
}

// find appends the tokens in text to dst: the first, of those that begin there the
// longest, and so on after it.
func (s *addedSet) find(dst []found, text []byte) []found {
	if len(s.list) == 0 {
		return dst
	}
	begin, state := len(dst), int32(0)
	for at := len(text) - 1; at >= 0; at-- {
		if state = s.step(state, text[at]); s.token[state] >= 0 {
			dst = append(dst, found{int32(at), s.token[state]})
		}
	}
	slices.Reverse(dst[begin:])
	kept, end := dst[:begin], 0
	for _, f := range dst[begin:] {
		if int(f.from) >= end {
			kept, end = append(kept, f), s.end(f)
		}
	}
	return kept
}

// end is the place after a token.
func (s *addedSet) end(f found) int { return int(f.from) + len(s.list[f.index].Text) }

// around finds the token of list, which find gave, that a place is inside.
func (s *addedSet) around(list []found, place int) (found, bool) {
	i, _ := slices.BinarySearchFunc(list, int32(place), func(f found, place int32) int { return int(f.from) - int(place) })
	if i == 0 || s.end(list[i-1]) <= place {
		return found{}, false
	}
	return list[i-1], true
}

// endsAt reports whether a token of list, which find gave, ends at a place.
func (s *addedSet) endsAt(list []found, place int) bool {
	i, _ := slices.BinarySearchFunc(list, int32(place), func(f found, place int32) int { return int(f.from) - int(place) })
	return i > 0 && s.end(list[i-1]) == place
}
