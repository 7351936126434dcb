package tokenizer

import (
	"container/heap"
	"context"

	"golang.org/x/text/unicode/norm"
)

// coder encodes for one goroutine at a time. It remembers words.
type coder struct {
	t         *BPE
	out       []uint32 // of the piece
	added     []found  // in the piece
	lateFound []found  // in the text between them, normalized
	normal    []byte   // that text
	marked    []byte   // the same with its spaces marked
	first     []uint32 // the tokens of a word before any merge
	known     map[string]interval
	ids       []uint32 // of the known words
	steps     []step   // of the word
	queue     queue    // of a long word
}

// interval is a word's ids among those of known words.
type interval struct{ from, to int }

// Limits on what a coder remembers. Common words are a few thousand.
const (
	mostKnown     = 1 << 16 // words
	mostKnownWord = 48      // bytes
)

func newCoder(t *BPE) *coder { return &coder{t: t, known: map[string]interval{}} }

// place says what is before a text.
type place int

const (
	goesOn     place = iota // a piece of the same text
	begins                  // nothing
	afterAdded              // an added token
)

// piece encodes a piece of text into c.out, until ctx is done.
func (c *coder) piece(ctx context.Context, text []byte, at place) error {
	set := c.t.added
	c.out, c.added = c.out[:0], set.find(c.added[:0], text)
	from := 0
	for _, f := range c.added {
		if err := c.between(ctx, text[from:f.from], at); err != nil {
			return err
		}
		c.out = append(c.out, set.list[f.index].ID)
		from, at = set.end(f), afterAdded
	}
	return c.between(ctx, text[from:], at)
}

// between encodes text between added tokens: it is normalized, and the tokens that are then
// there are found.
func (c *coder) between(ctx context.Context, text []byte, at place) error {
	if len(text) == 0 {
		return nil
	}
	if s := c.t.spaces; s != nil {
		c.normal = s.normalize(c.normal[:0], text, at)
		text = c.normal
	} else if c.t.nfc && !norm.NFC.IsNormal(text) {
		c.normal = norm.NFC.Append(c.normal[:0], text...)
		text = c.normal
	}
	set := c.t.later
	c.lateFound = set.find(c.lateFound[:0], text)
	from := 0
	for _, f := range c.lateFound {
		if err := c.words(ctx, text[from:f.from], at); err != nil {
			return err
		}
		c.out = append(c.out, set.list[f.index].ID)
		from, at = set.end(f), afterAdded
	}
	return c.words(ctx, text[from:], at)
}

// words encodes normalized text without added tokens, word by word.
func (c *coder) words(ctx context.Context, text []byte, at place) error {
	if c.t.spaces == nil {
		return splitAll(ctx, c.t.split, text, c.word)
	}
	return c.spaced(ctx, text, at)
}

// word appends the ids of a word to c.out.
func (c *coder) word(w []byte) error {
	if x, ok := c.known[string(w)]; ok {
		c.out = append(c.out, c.ids[x.from:x.to]...)
		return nil
	}
	from := len(c.out)
	c.merge(w)
	if len(w) > mostKnownWord {
		return nil
	}
	if len(c.known) == mostKnown {
		clear(c.known)
		c.ids = c.ids[:0]
	}
	c.known[string(w)] = interval{len(c.ids), len(c.ids) + len(c.out) - from}
	c.ids = append(c.ids, c.out[from:]...)
	return nil
}

// step is a token of a word while it is merged.
type step struct {
	id   uint32
	next merged // of this token and the one after it
}

// longWord is the length in tokens before any merge from which a heap finds the next merge. A
// shorter word is searched from end to end, which is faster.
const longWord = 128

// merge appends a word's ids to c.out.
func (c *coder) merge(w []byte) {
	c.first = c.first[:0]
	if c.t.spaces != nil {
		c.first = c.t.spaces.appendFirst(c.first, w)
	} else {
		if id, ok := c.t.whole[string(w)]; ok {
			c.out = append(c.out, id)
			return
		}
		for _, b := range w {
			c.first = append(c.first, c.t.byteIDs[b])
		}
	}
	if len(c.first) >= longWord {
		c.mergeLong(c.first)
		return
	}
	s := c.steps[:0]
	for _, id := range c.first {
		s = append(s, step{id: id})
	}
	c.mergeShort(s)
}

// mergeShort is merge for a word whose tokens before any merge are set.
func (c *coder) mergeShort(s []step) {
	for i := range s {
		s[i].next = c.after(s, i)
	}
	for {
		at, best := -1, none.rank
		for i := range s {
			if s[i].next.rank < best {
				at, best = i, s[i].next.rank
			}
		}
		if at < 0 {
			break
		}
		s[at].id = s[at].next.id
		s = append(s[:at+1], s[at+2:]...)
		if s[at].next = c.after(s, at); at > 0 {
			s[at-1].next = c.after(s, at-1)
		}
	}
	for i := range s {
		c.out = append(c.out, s[i].id)
	}
	c.steps = s
}

// after is the merge of token i of a word and the one after it.
func (c *coder) after(s []step, i int) merged {
	if i+1 == len(s) {
		return none
	}
	return c.t.pairMerge(s[i].id, s[i+1].id)
}

func (t *BPE) pairMerge(left, right uint32) merged {
	if m, ok := t.merges[pairOf(left, right)]; ok {
		return m
	}
	return none
}

// link is a token of a long word. Tokens that were merged into the one before are
// left out of the list.
type link struct {
	id         uint32
	prev, next int32 // -1: none
}

// candidate is a merge that may apply to a long word: of the token at a place and
// the one after it, which were left and right when it was found.
type candidate struct {
	merged
	at          int32
	left, right uint32
}

// queue is a heap of candidates: the lowest rank first, and of equal ones the
// first in the word.
type queue []candidate

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].at < q[j].at
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *queue) Push(x any) { *q = append(*q, x.(candidate)) }

func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// mergeLong is merge for a word of n tokens before any merge in time n·log n.
func (c *coder) mergeLong(first []uint32) {
	list := make([]link, len(first))
	for i, id := range first {
		list[i] = link{id, int32(i - 1), int32(i + 1)}
	}
	list[len(first)-1].next = -1
	c.queue = c.queue[:0]
	for i := range list {
		c.enqueue(list, int32(i))
	}
	for len(c.queue) > 0 {
		x := heap.Pop(&c.queue).(candidate)
		l := &list[x.at]
		if l.next < 0 || l.id != x.left || list[l.next].id != x.right {
			continue // one of the two was merged since
		}
		gone := l.next
		l.id, l.next = x.id, list[gone].next
		list[gone].id = goneID
		if l.next >= 0 {
			list[l.next].prev = x.at
		}
		c.enqueue(list, x.at)
		c.enqueue(list, l.prev)
	}
	for i := int32(0); i >= 0; i = list[i].next {
		c.out = append(c.out, list[i].id)
	}
	const keep = 1 << 16
	if cap(c.queue) > keep {
		c.queue = nil
	}
}

// goneID is no token's id.
const goneID = ^uint32(0)

// enqueue adds the merge of a token and the one after it, if there is one.
func (c *coder) enqueue(list []link, at int32) {
	if at < 0 || list[at].next < 0 {
		return
	}
	left, right := list[at].id, list[list[at].next].id
	if m := c.t.pairMerge(left, right); m != none {
		heap.Push(&c.queue, candidate{m, at, left, right})
	}
}
