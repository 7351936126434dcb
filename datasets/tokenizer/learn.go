package tokenizer

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
)

// LearnOptions are the options of NewLearner.
type LearnOptions struct {
	// Vocab is the number of tokens: 256 bytes, the merges, and <|endoftext|>. A
	// text without that many repeated pairs gives fewer.
	Vocab int
	// Progress is told how many merges of all are learned; nil: nobody.
	Progress func(done, all int)
}

// The range of LearnOptions.Vocab.
const (
	LeastVocab = 257
	MostVocab  = 1 << 20
)

// Learner makes a byte pair encoding from a text: the pair of neighbouring tokens
// that is most frequent within words becomes a token, again and again. Of equally
// frequent pairs, the one with the lower ids does. The same text gives the same
// tokenizer.
//
//	n := l.NewCounts() // for each piece of text, in parallel
//	n.Add(piece)
//	l.Add(n) // in the order of the pieces
//	t, err := l.Learn(ctx)
type Learner struct {
	o     LearnOptions
	added *addedSet
	words *words
}

// Counts are the words of a piece of text. One goroutine uses them at a time.
type Counts struct {
	added *addedSet
	words *words
}

// NewLearner checks the options.
func NewLearner(o LearnOptions) (*Learner, error) {
	if o.Vocab < LeastVocab || o.Vocab > MostVocab {
		return nil, fmt.Errorf("%w: %d tokens: the number must be from %d (the bytes and %s) to %d", ErrLearn, o.Vocab, LeastVocab, EndOfText, MostVocab)
	}
	return &Learner{o: o, words: newWords(), added: newAddedSet([]Added{{Text: EndOfText, Special: true}})}, nil
}

// Cut is [Tokenizer.Cut] for the text to learn from.
func (l *Learner) Cut(text []byte, ended bool) int { return cut(text, ended, l.added, endsWord) }

// NewCounts is for a piece of text.
func (l *Learner) NewCounts() Counts { return Counts{l.added, newWords()} }

// Add counts the words of a text that ends between words.
func (c Counts) Add(text []byte) {
	from := 0
	for _, f := range c.added.find(nil, text) {
		c.addWords(text[from:f.from])
		from = c.added.end(f)
	}
	c.addWords(text[from:])
}

// addWords counts the words of text without added tokens.
func (c Counts) addWords(text []byte) {
	// It never fails: GPT-2's split has no limits.
	_ = gpt2Split{}.each(context.Background(), text, func(word []byte) error {
		c.word(word)
		return nil
	})
}

// word counts a word, a very long one in pieces.
func (c Counts) word(word []byte) {
	if len(word) > mostLearntWord {
		for piece := range slices.Chunk(word, longWordPiece) {
			c.words.addBytes(piece)
		}
		return
	}
	c.words.addBytes(word)
}

// addBytes counts a word. It allocates only if the word is new.
func (w *words) addBytes(word []byte) {
	if n, known := w.counts[string(word)]; known {
		w.counts[string(word)] = n + 1
		return
	}
	w.add(string(word), 1)
}

// Add takes the counts of a piece in. What is forgotten of a huge text depends on
// the order of the calls.
func (l *Learner) Add(c Counts) { l.words.addAll(c.words) }

// Learn makes the tokenizer of the counts so far.
func (l *Learner) Learn(ctx context.Context) (*BPE, error) {
	m := newMerger(l.words.sorted())
	l.words = newWords()
	all := l.o.Vocab - LeastVocab
	for len(m.tokens) < l.o.Vocab-len(l.added.list) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !m.mergeNext() {
			break // no pair is left
		}
		if l.o.Progress != nil {
			l.o.Progress(len(m.tokens)-256, all)
		}
	}
	p := parts{kind: "bpe", tokens: m.tokens, pairs: m.pairs, split: []splitter{gpt2Split{}}}
	for _, a := range l.added.list {
		a.ID = uint32(len(p.tokens))
		p.tokens, p.added = append(p.tokens, a.Text), append(p.added, a)
	}
	t, err := newBPE(p)
	if err != nil {
		return nil, err
	}
	return t, t.fits(mostFile)
}

// merger learns merges from words.
type merger struct {
	tokens []string // by id: the bytes
	ids    map[string]uint32
	pairs  []pair        // by rank
	learnt map[pair]bool // of pairs
	words  []wordTokens
	counts map[pair]int64
	// where lists the words that hold a pair. It may list a word twice, and some
	// that hold the pair no more.
	where map[pair][]int32
	queue pairQueue
}

// wordTokens is a word as its tokens so far.
type wordTokens struct {
	tokens []uint32
	count  int64
}

func newMerger(list []counted) *merger {
	m := &merger{ids: map[string]uint32{}, learnt: map[pair]bool{}, counts: map[pair]int64{}, where: map[pair][]int32{}}
	for b := range 256 {
		m.token(string([]byte{byte(b)}))
	}
	m.words = make([]wordTokens, len(list))
	for i, w := range list {
		tokens := make([]uint32, len(w.word))
		for j := range tokens {
			tokens[j] = uint32(w.word[j])
		}
		m.words[i] = wordTokens{tokens, w.count}
		m.count(int32(i), 1)
	}
	for p, n := range m.counts {
		m.queue = append(m.queue, pairCount{p, n})
	}
	heap.Init(&m.queue)
	return m
}

// token gives the id of a token, a new one if it is new.
func (m *merger) token(text string) uint32 {
	id, known := m.ids[text]
	if !known {
		id = uint32(len(m.tokens))
		m.ids[text] = id
		m.tokens = append(m.tokens, text)
	}
	return id
}

// count adds the pairs of a word to the counts, or with sign -1 takes them away.
func (m *merger) count(word int32, sign int64) {
	w := &m.words[word]
	for i := 1; i < len(w.tokens); i++ {
		p := pairOf(w.tokens[i-1], w.tokens[i])
		m.counts[p] += sign * w.count
		if sign > 0 {
			m.where[p] = append(m.where[p], word)
		}
	}
}

// mergeNext makes a token of the most frequent pair. It reports false if no pair
// occurs twice.
func (m *merger) mergeNext() bool {
	p, ok := m.mostFrequent()
	if !ok {
		return false
	}
	id := m.token(m.tokens[p.left()] + m.tokens[p.right()])
	// Two pairs can make the same token, so that a pair of it comes back.
	if !m.learnt[p] {
		m.learnt[p] = true
		m.pairs = append(m.pairs, p)
	}
	grown := map[pair]bool{}
	for _, word := range m.where[p] {
		m.merge(word, p, id, grown)
	}
	delete(m.where, p)
	delete(m.counts, p)
	for x := range grown {
		heap.Push(&m.queue, pairCount{x, m.counts[x]})
	}
	return true
}

// mostFrequent takes the most frequent pair from the queue. Counts in the queue
// are never too low: one that is too high goes back with what it is now.
func (m *merger) mostFrequent() (pair, bool) {
	for len(m.queue) > 0 {
		top := m.queue[0]
		now := m.counts[top.pair]
		if now == top.count && now >= 2 {
			heap.Pop(&m.queue)
			return top.pair, true
		}
		if now < 2 || now > top.count { // a higher one is in the queue again
			heap.Pop(&m.queue)
			continue
		}
		m.queue[0].count = now
		heap.Fix(&m.queue, 0)
	}
	return 0, false
}

// merge makes one token of each pair p in a word, and notes the pairs that may
// have become more frequent.
func (m *merger) merge(word int32, p pair, id uint32, grown map[pair]bool) {
	w := &m.words[word]
	at := -1
	for i := 1; i < len(w.tokens) && at < 0; i++ {
		if pairOf(w.tokens[i-1], w.tokens[i]) == p {
			at = i - 1
		}
	}
	if at < 0 {
		return
	}
	m.count(word, -1)
	out := w.tokens[:at]
	for i := at; i < len(w.tokens); i++ {
		if i+1 < len(w.tokens) && pairOf(w.tokens[i], w.tokens[i+1]) == p {
			out = append(out, id)
			i++
			continue
		}
		out = append(out, w.tokens[i])
	}
	w.tokens = out
	m.recount(word, id, grown)
}

// recount adds the pairs of a word after a merge. Only pairs with the new token
// are new to the word.
func (m *merger) recount(word int32, id uint32, grown map[pair]bool) {
	w := &m.words[word]
	for i := 1; i < len(w.tokens); i++ {
		p := pairOf(w.tokens[i-1], w.tokens[i])
		m.counts[p] += w.count
		if p.left() == id || p.right() == id {
			m.where[p] = append(m.where[p], word)
			grown[p] = true
		}
	}
}

// pairCount is a pair and its number of occurrences when it was queued.
type pairCount struct {
	pair
	count int64
}

// pairQueue is a heap: the most frequent pair first, and of equal ones that with
// the lower ids.
type pairQueue []pairCount

func (q pairQueue) Len() int { return len(q) }

func (q pairQueue) Less(i, j int) bool {
	return q[i].count > q[j].count || q[i].count == q[j].count && q[i].pair < q[j].pair
}

func (q pairQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *pairQueue) Push(x any) { *q = append(*q, x.(pairCount)) }

func (q *pairQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}
