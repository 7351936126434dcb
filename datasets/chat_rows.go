package datasets

import (
	"context"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// openChats reads conversations as samples. The target of a token is the next one, if that
// is of an answer, and else [Padding].
func openChats(ctx context.Context, s Spec, c *corpus) (*Dataset, error) {
	r, t, err := c.chatRows(ctx, s, false)
	if err != nil {
		return nil, err
	}
	ds, err := splitOrWhole(s, func(fraction float64) (*Dataset, error) { return r.dataset(ctx, s, t, fraction) })
	if err != nil {
		return nil, err
	}
	ds.Info.Chat = c.chats.Format
	ds.Notes = slices.Concat(c.notes(), c.chats.Notes, r.notes(s))
	return ds, nil
}

// chatInputs reads conversations to predict from.
func chatInputs(ctx context.Context, s Spec, info *Info, path string) (*table, error) {
	s.Like, s.Path, s.Text.More = info, path, nil
	c, err := openCorpus(s, path)
	if err == nil {
		c.chats, err = s.chatFormat()
	}
	if err != nil {
		return nil, err
	}
	r, _, err := c.chatRows(ctx, s, true)
	if err != nil {
		return nil, err
	}
	for _, text := range append(c.notes(), r.notes(s)...) {
		s.note(text)
	}
	return sequenceTable(r.sequences(false)), nil
}

// chatRows are samples of conversations, each of which is whole in one of them.
type chatRows struct {
	ids     textIDs   // of the conversations, one after the other
	answers []bool    // which of them are of answers
	begins  []int64   // of each conversation in ids, and the end of the last one
	rowsOf  [][]int32 // conversations of each sample
	lengths []int32   // positions of each sample
	terms   []int32   // of those, the ones that have a target

	context int
	whole   bool // a sample has all tokens of a conversation; otherwise the last one is but a target
	cut     int  // conversations that were cut off
	longest int  // tokens of the longest of them
	leftOut int  // conversations that were cut off before their first answer
}

// chatRows reads the conversations of a corpus.
func (c *corpus) chatRows(ctx context.Context, s Spec, whole bool) (*chatRows, tokenizer.Tokenizer, error) {
	t, _, err := c.tokenizer(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	r := &chatRows{ids: textIDs{width: idWidth(t.Len())}, begins: []int64{0}, context: s.Text.Context, whole: whole}
	err = c.readChats(ctx, t, func(path string, x encodedChat) error {
		if err := r.add(x, s.Text.Truncate); err != nil {
			return fmt.Errorf("%w: %s:%d: %w", ErrFormat, path, x.number, err)
		}
		return fits(path, r.bytes(), s.Memory)
	})
	switch {
	case err != nil:
	case r.leftOut > 0 && len(r.begins) == 1:
		err = blame("context", fmt.Errorf("%w: %s has no conversation whose answer begins within data.context, %s: raise it", ErrTooFew, s.textFiles(), units.Count(r.context, "token")))
	case len(r.begins) == 1:
		err = fmt.Errorf("%w: %s has no conversation: name a file of them", ErrTooFew, s.textFiles())
	}
	if err != nil {
		return nil, nil, err
	}
	r.pack()
	return r, t, nil
}

// add adds a conversation.
func (r *chatRows) add(x encodedChat, truncate bool) error {
	most := r.context
	if !r.whole {
		most++
	}
	if n := len(x.ids); n > most {
		if !truncate {
			return blame("context", fmt.Errorf("the conversation has %d tokens, and a sample of data.context %d has room for %d: raise data.context, or cut long ones off with data.truncate: true", n, r.context, most))
		}
		r.cut, r.longest = r.cut+1, max(r.longest, n)
		had := countTrue(x.answers[1:])
		x.ids, x.answers = x.ids[:most], x.answers[:most]
		if !r.whole && had > 0 && countTrue(x.answers[1:]) == 0 {
			r.leftOut++
			return nil
		}
	}
	if !r.whole && (len(x.ids) < 2 || countTrue(x.answers[1:]) == 0) {
		return fmt.Errorf("the conversation has no answer, a message of the role %s that the chat template renders, so that it teaches nothing: take the line out", assistant)
	}
	r.ids.data = appendIDs(r.ids.data, r.ids.width, x.ids)
	r.answers = append(r.answers, x.answers...)
	r.begins = append(r.begins, int64(r.ids.len()))
	return nil
}

func countTrue(list []bool) (n int) {
	for _, x := range list {
		if x {
			n++
		}
	}
	return n
}

// positions are those of a conversation in a sample.
func (r *chatRows) positions(conversation int32) int {
	n := int(r.begins[conversation+1] - r.begins[conversation])
	if !r.whole {
		n--
	}
	return n
}

// pack puts conversations into samples: the longest first, each into the sample that it leaves the
// least room in (best fit, decreasing; Ding et al., "Fewer Truncations Improve Language
// Modeling", 2024). Of equals, the first comes first. A sample to predict from has one.
func (r *chatRows) pack() {
	order := make([]int32, len(r.begins)-1)
	for i := range order {
		order[i] = int32(i)
	}
	if !r.whole {
		slices.SortStableFunc(order, func(a, b int32) int { return r.positions(b) - r.positions(a) })
	}
	room := make([][]int32, r.context+1)   // samples, by the positions that are left
	some := make([]uint64, r.context/64+1) // a bit for each of room that has a sample
	for _, i := range order {
		need := r.positions(i)
		left := firstBit(some, need)
		row := int32(len(r.rowsOf))
		if left > r.context || r.whole {
			r.rowsOf, left = append(r.rowsOf, nil), r.context
		} else {
			last := len(room[left]) - 1
			row, room[left] = room[left][last], room[left][:last]
			if last == 0 {
				some[left/64] &^= 1 << (left % 64)
			}
		}
		r.rowsOf[row] = append(r.rowsOf[row], i)
		left -= need
		room[left], some[left/64] = append(room[left], row), some[left/64]|1<<(left%64)
	}
	for _, list := range r.rowsOf {
		positions, terms := 0, 0
		for _, i := range list {
			positions += r.positions(i)
			terms += countTrue(r.answers[r.begins[i]+1 : r.begins[i+1]])
		}
		r.lengths, r.terms = append(r.lengths, int32(positions)), append(r.terms, int32(terms))
	}
}

// firstBit is the first bit from one on that is set; the number of bits if there is none.
func firstBit(words []uint64, from int) int {
	for i := from / 64; i < len(words); i++ {
		w := words[i]
		if i == from/64 {
			w &= ^uint64(0) << (from % 64)
		}
		if w != 0 {
			return 64*i + bits.TrailingZeros64(w)
		}
	}
	return 64 * len(words)
}

// writePositions writes the position of each token in its conversation. Each position of
// padding is one alone, at 0; row -1 is an empty sample.
func (r *chatRows) writePositions(row int, dst []int32) {
	clear(dst)
	if row < 0 {
		return
	}
	for _, i := range r.rowsOf[row] {
		n := r.positions(i)
		for j := range n {
			dst[j] = int32(j)
		}
		dst = dst[n:]
	}
}

// sequences are the samples, with or without targets.
func (r *chatRows) sequences(targets bool) *sequences {
	s := &sequences{of: r, buckets: []int{r.context}, input: shape.I32(r.context)}
	if targets {
		s.target, s.packed = s.input, true
	}
	return s
}

// notes say how the samples are other than a user may expect.
func (r *chatRows) notes(s Spec) (list []string) {
	if r.cut > 0 {
		list = append(list, fmt.Sprintf("data.truncate: %s are cut off at %s; the longest has %s", units.Count(r.cut, "conversation"), units.Count(r.context, "token"), units.Thousands(r.longest)))
	}
	if r.leftOut > 0 {
		list = append(list, fmt.Sprintf("data.truncate: %s of them left out, as no answer is left", units.Thousands(r.leftOut)))
	}
	return list
}

// dataset makes the dataset of the samples, a fraction of them for training.
func (r *chatRows) dataset(ctx context.Context, s Spec, t tokenizer.Tokenizer, fraction float64) (*Dataset, error) {
	samples := r.sequences(true)
	table := sequenceTable(samples)
	ds := &Dataset{Name: s.textName()}
	if err := ds.split(table, s, fraction, nil); err != nil {
		return nil, err
	}
	print, err := fingerprint(ctx, s, []any{"chats", t.Hash()}, table)
	if err != nil {
		return nil, err
	}
	ds.Info = Info{
		Inputs: []Field{{"input", samples.input}, lengthField}, Target: Field{"target", samples.target}, Chats: true,
		Classes: t.Len(), Tokens: t.Len(), Tokenizer: t, Buckets: samples.buckets, Fingerprint: print,
	}
	return ds, nil
}

func (r *chatRows) rows() int { return len(r.rowsOf) }

func (r *chatRows) bytes() int64 {
	return int64(len(r.ids.data) + len(r.answers) + 12*len(r.begins) + 36*len(r.rowsOf))
}

func (r *chatRows) length(row int) int { return int(r.lengths[row]) }

// counted is the number of the targets of a sample that count.
func (r *chatRows) counted(row int) int { return int(r.terms[row]) }

func (r *chatRows) write(s Sample, input, target []byte) error {
	in, out := shape.View[int32](input), shape.View[int32](target)
	for _, i := range r.rowsOf[s.Index] {
		from, n := int(r.begins[i]), r.positions(i)
		for j := range n {
			in[j] = r.ids.at(from + j)
			if target == nil {
				continue
			}
			if out[j] = Padding; r.answers[from+j+1] {
				out[j] = r.ids.at(from + j + 1)
			}
		}
		if in = in[n:]; target != nil {
			out = out[n:]
		}
	}
	return nil
}

func (r *chatRows) hash(ctx context.Context, buckets []int, w io.Writer) error {
	fmt.Fprintf(w, "conversations in %v\n", buckets)
	w.Write(shape.Bytes(r.begins))
	for _, list := range r.rowsOf {
		fmt.Fprintln(w, list)
	}
	spans := make([]byte, 0, len(r.answers))
	for _, x := range r.answers {
		spans = append(spans, map[bool]byte{true: 1}[x])
	}
	w.Write(spans)
	return r.ids.writeTo(ctx, w)
}
