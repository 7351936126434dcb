package datasets

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/datasets/tokenizer"
)

// encode gives the ids of a corpus to collect, some at a time and in order; collect
// does not keep them. A
// document that another may follow ends with the tokenizer's end of text, or with
// the end of a line if it has none.
func (c *corpus) encode(ctx context.Context, t tokenizer.Tokenizer, collect func(ids []uint32) error) error {
	end := []byte("\n")
	endID, hasEnd := t.EndOfText()
	var lists recycled[uint32]
	return each(ctx, c, "tokenizing", t.Cut, func(p textPiece) (ids []uint32, err error) {
		ids = lists.get()
		err = c.documents(p, func(text []byte, ends bool) error {
			if ids, err = t.Encode(ctx, ids, text); err != nil || !ends {
				return err
			}
			if hasEnd {
				ids = append(ids, endID)
				return nil
			}
			ids, err = t.Encode(ctx, ids, end)
			return err
		})
		return ids, err
	}, func(ids []uint32) error {
		defer lists.put(ids)
		return collect(ids)
	})
}

// chars is the tokenizer of the corpus's own characters, and how many characters
// the corpus has.
func (c *corpus) chars(ctx context.Context) (*tokenizer.Chars, int64, error) {
	type counted struct {
		set   tokenizer.CharSet
		count int
	}
	var all tokenizer.CharSet
	var count int64
	err := each(ctx, c, "counting characters", new(tokenizer.Chars).Cut, func(p textPiece) (n counted, err error) {
		err = c.documents(p, func(text []byte, ends bool) error {
			n.count += n.set.Add(text)
			if ends {
				n.count += n.set.Add([]byte("\n"))
			}
			return nil
		})
		return n, err
	}, func(n counted) error {
		all.AddSet(&n.set)
		count += int64(n.count)
		return nil
	})
	return all.Chars(), count, err
}

// bytes is the number of bytes of the corpus, with the ends of its documents.
func (c *corpus) bytes(ctx context.Context) (count int64, err error) {
	err = each(ctx, c, "counting bytes", tokenizer.Bytes{}.Cut, func(p textPiece) (n int64, err error) {
		err = c.documents(p, func(text []byte, ends bool) error {
			n += int64(len(text))
			if ends {
				n++
			}
			return nil
		})
		return n, err
	}, func(n int64) error {
		count += n
		return nil
	})
	return count, err
}

// learn learns a byte pair encoding of that many tokens.
func (c *corpus) learn(ctx context.Context, vocab int) (*tokenizer.BPE, error) {
	l, err := tokenizer.NewLearner(tokenizer.LearnOptions{Vocab: vocab, Progress: func(done, all int) {
		if c.progress != nil && all > 0 {
			c.progress("learning a tokenizer", float64(done)/float64(all))
		}
	}})
	if err != nil {
		return nil, blame("tokenizer", err)
	}
	err = each(ctx, c, "counting words", l.Cut, func(p textPiece) (tokenizer.Counts, error) {
		n := l.NewCounts()
		err := c.documents(p, func(text []byte, _ bool) error {
			n.Add(text)
			return nil
		})
		return n, err
	}, func(n tokenizer.Counts) error {
		l.Add(n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l.Learn(ctx)
}

// inMemory is the ids of a corpus, which take at most memory bytes, unless that is
// 0. count is the number of ids if it is known, and 0 otherwise.
func (c *corpus) inMemory(ctx context.Context, t tokenizer.Tokenizer, path string, count, memory int64) (textIDs, error) {
	ids := textIDs{width: idWidth(t.Len())}
	need := count * int64(ids.width)
	if err := fits(path, need, memory); err != nil {
		return textIDs{}, err
	}
	ids.data = make([]byte, 0, need)
	err := c.encode(ctx, t, func(list []uint32) error {
		ids.data = appendIDs(ids.data, ids.width, list)
		return fits(path, int64(len(ids.data)), memory)
	})
	if err == nil && count > 0 && int64(len(ids.data)) != need {
		err = fmt.Errorf("%w: %s changed while it was read: start again once it is complete", ErrFormat, path)
	}
	return ids, err
}
