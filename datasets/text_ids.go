package datasets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/filecache"
)

// encode tokenizes a corpus and calls collect with its ids, piece by piece and in order. It
// reuses the slice ids once collect returns. Behind each document that another one may
// follow comes the tokenizer's token for the end of a text, or a line break if the tokenizer
// has no such token.
func (c *corpus) encode(ctx context.Context, t tokenizer.Tokenizer, collect func(ids []uint32) error) error {
	end := []byte("\n")
	endID, hasEnd := t.EndOfText()
	var lists recycled[uint32]
	return each(ctx, c, "tokenizing", t.Cut, func(p textPiece) (ids []uint32, err error) {
		ids = lists.get()
		err = c.documents(p, func(text []byte, ends bool) error {
			encode := t.Encode
			if c.field == "" && p.at != start { // a piece of a file
				encode = t.EncodeRest
			}
			if ids, err = encode(ctx, ids, text); err != nil || !ends {
				return err
			}
			if hasEnd {
				ids = append(ids, endID)
				return nil
			}
			ids, err = t.EncodeRest(ctx, ids, end)
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

// textIDs are the ids of a text's tokens, each in the fewest bytes that the
// tokenizer needs.
type textIDs struct {
	data    []byte
	width   int             // bytes of an id: 1, 2 or 4
	mapping *osfile.Mapping // that data is of; nil: data is memory
	sum     string          // SHA-256 of data in hex; "": it was not computed
}

// idWidth is the bytes of an id below count.
func idWidth(count int) int {
	switch {
	case count <= math.MaxUint8+1:
		return 1
	case count <= math.MaxUint16+1:
		return 2
	}
	return 4
}

func (t *textIDs) len() int { return len(t.data) / t.width }

// appendIDs appends ids, each in width bytes, to data. Like append, it reuses the array of data
// while that has room. Ids of two bytes are little-endian, as column needs them and files of
// tokens have them; ids of four bytes are in the machine's order, as in a tensor of i32.
func appendIDs(data []byte, width int, ids []uint32) []byte {
	for _, id := range ids {
		switch width {
		case 1:
			data = append(data, byte(id))
		case 2:
			data = binary.LittleEndian.AppendUint16(data, uint16(id))
		default:
			data = binary.NativeEndian.AppendUint32(data, id)
		}
	}
	return data
}

// writeTo writes all tokens.
func (t *textIDs) writeTo(ctx context.Context, w io.Writer) error {
	return inPieces(ctx, len(t.data), pieceBytes, func(from, to int) error {
		_, err := w.Write(t.data[from:to])
		return err
	})
}

// at is the id at a position.
func (t *textIDs) at(i int) int32 {
	switch t.width {
	case 1:
		return int32(t.data[i])
	case 2:
		return int32(binary.LittleEndian.Uint16(t.data[2*i:]))
	}
	return int32(binary.NativeEndian.Uint32(t.data[4*i:]))
}

// slice is the ids from one position up to another, in the same memory.
func (t *textIDs) slice(from, to int) textIDs {
	return textIDs{data: t.data[from*t.width : to*t.width], width: t.width, mapping: t.mapping}
}

// hash is the SHA-256 of the ids as they are stored, in hex.
func (t *textIDs) hash(ctx context.Context) (string, error) {
	if t.sum != "" {
		return t.sum, nil
	}
	h := sha256.New()
	err := t.guard(func() error { return t.writeTo(ctx, h) })
	return hex.EncodeToString(h.Sum(nil)), err
}

// guard runs f, which reads the ids. If the ids are in a file that was cut short meanwhile, it
// gives an error where the process would otherwise crash.
func (t *textIDs) guard(f func() error) error {
	if t.mapping == nil {
		return f()
	}
	return t.mapping.Guard(f)
}

// column makes an input column: sample i has the ids from i*window up to (i+1)*window.
func (t textIDs) column(window int) column {
	field := Field{"input", shape.I32(window)}
	switch t.width {
	case 1:
		return storedColumn(field, t.data, safetensors.U8)
	case 2:
		return storedColumn(field, t.data, safetensors.U16)
	}
	return newColumn(field, t.data)
}

// cacheFrom is the size in bytes of the smallest corpus whose tokens are kept in
// the user's cache. A smaller one is tokenized in some 20 ms.
const cacheFrom = 1 << 20

// cached is the ids of a corpus, from a file in the user's cache if the corpus is
// large. Without a folder that can be written, they are in memory.
func (c *corpus) cached(ctx context.Context, t tokenizer.Tokenizer, path string, memory int64) (textIDs, error) {
	width := idWidth(t.Len())
	f, err := c.open(ctx, fmt.Sprintf("tokens %s %d", t.Hash(), width), func(w io.Writer) error {
		var buf []byte
		return c.encode(ctx, t, func(ids []uint32) error {
			buf = appendIDs(buf[:0], width, ids)
			_, err := w.Write(buf)
			return err
		})
	})
	if err != nil {
		return textIDs{}, err
	}
	if f == nil {
		return c.inMemory(ctx, t, path, 0, memory)
	}
	return textIDs{data: f.Bytes(), width: width, mapping: f.Mapping, sum: f.Sum}, nil
}

// cachedLearn is learn, from a file in the user's cache if the corpus is large.
func (c *corpus) cachedLearn(ctx context.Context, vocab int) (*tokenizer.BPE, error) {
	f, err := c.open(ctx, fmt.Sprintf("tokenizer of %d from words of any length", vocab), func(w io.Writer) error {
		t, err := c.learn(ctx, vocab)
		if err != nil {
			return err
		}
		return t.Write(w)
	})
	if err != nil {
		return nil, err
	}
	if f == nil {
		return c.learn(ctx, vocab)
	}
	var b []byte
	err = f.Mapping.Guard(func() error {
		b = bytes.Clone(f.Bytes())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return tokenizer.Parse(b)
}

// open opens the cached file of something that write makes of the corpus. It
// is nil for a small corpus, and where there is no folder for it or no room in it, which notes say.
func (c *corpus) open(ctx context.Context, what string, write func(io.Writer) error) (*filecache.File, error) {
	if c.size < cacheFrom {
		return nil, nil
	}
	folder, err := filecache.Default(filecache.Tokens)
	if err != nil {
		c.uncached = err
		return nil, nil
	}
	before, err := c.stats()
	if err != nil {
		return nil, err
	}
	key, err := c.key(ctx, what)
	if err != nil {
		return nil, err
	}
	var making error
	f, err := folder.Open(ctx, key, func(w io.Writer) error {
		to := &failing{w: w}
		making = write(to)
		if making == nil {
			making = c.unchanged(before)
		}
		if to.err != nil { // of the cache, not of the text
			making = nil
			return to.err
		}
		return making
	})
	switch {
	case making != nil || err == nil:
		return f, making
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	c.uncached = err
	return nil, nil
}

// failing keeps the error of a writer.
type failing struct {
	w   io.Writer
	err error
}

func (f *failing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil {
		f.err = err
	}
	return n, err
}

// key hashes all that decides something that is made of the corpus: the contents
// of the files in their order, and how they are read.
func (c *corpus) key(ctx context.Context, what string) (key filecache.Key, err error) {
	if c.content == nil {
		if c.content, err = c.hash(ctx); err != nil {
			return key, err
		}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q %v\n", what, c.field, c.manyDocuments())
	if c.byLine {
		fmt.Fprintln(h, "by line")
	}
	if c.chats != nil {
		fmt.Fprintf(h, "chats %q %v\n", c.chats.Template, c.chats.Special)
	}
	h.Write(c.content)
	return filecache.Key(h.Sum(nil)), nil
}

// hash hashes the files as they are read, unpacked.
func (c *corpus) hash(ctx context.Context) ([]byte, error) {
	c.read.Store(0)
	all := sha256.New()
	for _, f := range c.files {
		s, err := f.open(ctx)
		if err != nil {
			return nil, err
		}
		one := sha256.New()
		_, err = io.Copy(one, &reporting{s, c})
		if err = errors.Join(err, s.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		all.Write(one.Sum(nil))
	}
	return all.Sum(nil), nil
}

// reporting reports how much of a corpus was read.
type reporting struct {
	*files.Stream
	c *corpus
}

func (r *reporting) Read(p []byte) (int, error) {
	r.c.report("reading")
	return r.Stream.Read(p)
}

// fileStat tells whether a file was changed.
type fileStat struct {
	size int64
	time time.Time
}

func (c *corpus) stats() (list []fileStat, err error) {
	for _, f := range c.files {
		if f.path == BuiltinShakespeare {
			continue
		}
		st, err := os.Stat(f.path)
		if err != nil {
			return nil, err
		}
		list = append(list, fileStat{st.Size(), st.ModTime()})
	}
	return list, nil
}

// unchanged fails if a file has another size or time than before, the stats from when it was
// first read. A corpus is read more than once, and each reading must find the same text.
func (c *corpus) unchanged(before []fileStat) error {
	now, err := c.stats()
	if err != nil {
		return err
	}
	for i, f := range now {
		if f.size != before[i].size || !f.time.Equal(before[i].time) {
			return fmt.Errorf("%w: %s changed while it was read: start again once it is complete", ErrFormat, c.files[0].path)
		}
	}
	return nil
}
