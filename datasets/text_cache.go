package datasets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/internal/filecache"
)

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
// is nil for a small corpus, and where there is no folder for it or no room in it.
func (c *corpus) open(ctx context.Context, what string, write func(io.Writer) error) (*filecache.File, error) {
	if c.size < cacheFrom {
		return nil, nil
	}
	folder, err := filecache.Default(filecache.Tokens)
	if err != nil {
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
	*stream
	c *corpus
}

func (r *reporting) Read(p []byte) (int, error) {
	r.c.report("reading")
	return r.stream.Read(p)
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

// unchanged refuses files that were changed since: they were read more than once.
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
