package datasets

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/semaphore"

	"github.com/berth-ml/berth/datasets/images"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/filecache"
	"github.com/berth-ml/berth/internal/units"
)

const (
	// decodeRoom is the memory in bytes that images take at once while they are decoded, unless a single one needs more.
	decodeRoom = 1 << 30
	// slowFrom is the bytes of files from which on decoding takes seconds, so that the pixels are kept in a file
	// for the next start, however few they are.
	slowFrom = 16 << 20
)

// decoding is a pass over images on all cores.
type decoding struct {
	*pictureSet
	room *semaphore.Weighted
	most int64 // bytes of room
}

func (p *pictureSet) decoding() decoding {
	return decoding{p, semaphore.NewWeighted(decodeRoom), decodeRoom}
}

// eachPicture works on each image with its contents, several at a time within the room, and collects the results in the order of
// the images. Work fails with images.ErrImage where the image is to be left out; collect has that error. memory is
// what work takes beside the contents.
func eachPicture[R any](ctx context.Context, d decoding, doing string, memory func(x *picture) int64, work func(x *picture, b []byte) (R, error), collect func(x *picture, r R, bad error) error) error {
	type result struct {
		x   *picture
		r   R
		bad error
	}
	done := 0
	return inParallel(ctx, func(yield func(*picture) error) error {
		for i := range d.list {
			if err := yield(&d.list[i]); err != nil {
				return err
			}
		}
		return nil
	}, func(x *picture) (out result, err error) {
		out.x = x
		out.r, err = one(ctx, d, x, memory, work)
		switch {
		case errors.Is(err, images.ErrImage):
			out.bad, err = err, nil
		case err != nil && !errors.Is(err, ErrFormat):
			err = fmt.Errorf("%s: %s: %w", d.path, x.name(), err)
		}
		return out, err
	}, func(r result) error {
		if done++; d.progress != nil && done%64 == 0 {
			d.progress(doing, float64(done)/float64(len(d.list)))
		}
		return collect(r.x, r.r, r.bad)
	})
}

// one works on one image once there is room for it.
func one[R any](ctx context.Context, d decoding, x *picture, memory func(x *picture) int64, work func(x *picture, b []byte) (R, error)) (r R, err error) {
	if x.size, err = d.source.size(x); err != nil {
		return r, err
	}
	takes := min(x.size+memory(x), d.most)
	if err := d.room.Acquire(ctx, takes); err != nil {
		return r, err
	}
	defer d.room.Release(takes)
	b, err := d.source.read(x)
	if err != nil {
		return r, err
	}
	return work(x, b)
}

// lookAll reads the headers and hashes the contents. It leaves out what is no image.
func (p *pictureSet) lookAll(ctx context.Context) error {
	type looked struct {
		header images.Header
		digest [32]byte
	}
	good := p.list[:0]
	err := eachPicture(ctx, p.decoding(), "reading images", func(*picture) int64 { return 0 }, func(x *picture, b []byte) (out looked, err error) {
		out.digest = sha256.Sum256(b)
		out.header, err = p.look(b)
		return out, err
	}, func(x *picture, r looked, bad error) error {
		if bad != nil {
			p.left.add(x, bad)
			return nil
		}
		keep := *x
		keep.header, keep.digest = r.header, r.digest
		good = append(good, keep)
		return nil
	})
	p.list = good
	if err == nil && len(good) == 0 {
		err = fmt.Errorf("%w: %s has no image that can be read%s", ErrTooFew, p.path, p.left.because())
	}
	return err
}

// decode decodes the images in their order. collect gets the pixels of each, until it returns; nil: the image is left out.
func (p *pictureSet) decode(ctx context.Context, o images.Options, collect func(x *picture, pixels []byte, bad error) error) error {
	var lists recycled[byte]
	return eachPicture(ctx, p.decoding(), "decoding images", func(x *picture) int64 { return x.header.Memory(o) }, func(x *picture, b []byte) ([]byte, error) {
		if sha256.Sum256(b) != x.digest {
			return nil, changedPicture(x)
		}
		pixels := lists.get()
		if cap(pixels) < o.Bytes() {
			pixels = make([]byte, o.Bytes())
		}
		pixels = pixels[:o.Bytes()]
		return pixels, images.Decode(b, x.header, o, pixels)
	}, func(x *picture, pixels []byte, bad error) error {
		defer lists.put(pixels)
		return collect(x, pixels, bad)
	})
}

// table decodes the images into a table without targets. Those that cannot be decoded are taken off the list.
func (p *pictureSet) table(ctx context.Context, s Spec, o images.Options) (t *table, err error) {
	need, files := int64(len(p.list))*int64(o.Bytes()), int64(0)
	for i := range p.list {
		files += p.list[i].size
	}
	room := s.Pictures.Memory / 2
	if room == 0 {
		room = s.Memory / 2
	}
	fits := room == 0 || need <= room
	t = &table{}
	var data []byte
	if fits && files < slowFrom {
		data, err = p.inMemory(ctx, o)
	} else {
		data, t.mapping, err = p.inFile(ctx, o, fits)
	}
	if err != nil {
		return nil, err
	}
	if t.rows = len(p.list); t.rows == 0 {
		return nil, fmt.Errorf("%w: %s has no image that can be read%s", ErrTooFew, p.path, p.left.because())
	}
	t.texts = &rowTexts{names: []string{"path"}, width: 1}
	for i := range p.list {
		t.texts.text = append(t.texts.text, p.list[i].name()...)
		t.texts.ends = append(t.texts.ends, len(t.texts.text))
	}
	t.columns = []column{pixelColumn(Field{"input", shape.F32(o.Channels, o.Height, o.Width)}, data, nil)}
	return t, nil
}

// inMemory decodes the images into memory.
func (p *pictureSet) inMemory(ctx context.Context, o images.Options) ([]byte, error) {
	data := make([]byte, 0, len(p.list)*o.Bytes())
	good := p.list[:0]
	err := p.decode(ctx, o, func(x *picture, pixels []byte, bad error) error {
		if bad != nil {
			p.left.add(x, bad)
			return nil
		}
		data, good = append(data, pixels...), append(good, *x)
		return nil
	})
	p.list = good
	return data, err
}

// inFile is the pixels from a file in the user's cache, into which they are decoded first where it is not there: those of all
// images that can be decoded, and then a byte for each image, 1 for those. Without such a file they are in memory if they fit.
func (p *pictureSet) inFile(ctx context.Context, o images.Options, fits bool) ([]byte, *osfile.Mapping, error) {
	folder, err := filecache.Default(filecache.Images)
	var f *filecache.File
	var making error
	if err == nil {
		f, err = folder.Open(ctx, p.cacheKey(o), func(w io.Writer) error {
			to := &failing{w: w}
			making = p.write(ctx, o, to)
			if to.err != nil { // of the cache, not of the images
				making = nil
				return to.err
			}
			return making
		})
	}
	switch {
	case making != nil:
		return nil, nil, making
	case err == nil:
		data, err := p.take(ctx, o, f.Mapping, f.Bytes())
		return data, f.Mapping, err
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case !fits:
		return nil, nil, fmt.Errorf("%s: the decoded images take %s, more than half of the host memory, and the file for them (BERTH_CACHE says in which folder): %w", p.path, units.Bytes(int64(len(p.list))*int64(o.Bytes())), err)
	}
	p.notes = append(p.notes, fmt.Sprintf("the decoded images are in memory, and are decoded again at the next start, since there is no file for them (BERTH_CACHE says in which folder): %v", err))
	data, err := p.inMemory(ctx, o)
	return data, nil, err
}

// write writes the contents of the file.
func (p *pictureSet) write(ctx context.Context, o images.Options, w io.Writer) error {
	flags := make([]byte, 0, len(p.list))
	err := p.decode(ctx, o, func(_ *picture, pixels []byte, bad error) error {
		if bad != nil {
			flags = append(flags, 0)
			return nil
		}
		flags = append(flags, 1)
		_, err := w.Write(pixels)
		return err
	})
	if err == nil {
		_, err = w.Write(flags)
	}
	return err
}

// take takes images off the list that the file has no pixels of, and gives the pixels of the others.
func (p *pictureSet) take(ctx context.Context, o images.Options, m *osfile.Mapping, b []byte) (data []byte, err error) {
	if len(b) < len(p.list) {
		return nil, fmt.Errorf("%w: the file of the decoded images of %s is of others: remove it", ErrFormat, p.path)
	}
	end := len(b) - len(p.list)
	var flags []byte
	if err := m.Guard(func() error { flags = append(flags, b[end:]...); return nil }); err != nil {
		return nil, err
	}
	all := p.list
	p.list = nil
	for i, flag := range flags {
		if flag == 1 {
			p.list = append(p.list, all[i])
			continue
		}
		again := pictureSet{path: p.path, source: p.source, list: all[i : i+1]} // for the reason
		err := again.decode(ctx, o, func(x *picture, _ []byte, bad error) error {
			p.left.add(x, bad)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if end != len(p.list)*o.Bytes() {
		return nil, fmt.Errorf("%w: the file of the decoded images of %s is of others: remove it", ErrFormat, p.path)
	}
	return b[:end], nil
}

// pictureVersion changes whenever a file of pixels is to be made anew.
const pictureVersion = 2

// cacheKey hashes all that decides the pixels.
func (p *pictureSet) cacheKey(o images.Options) filecache.Key {
	h := sha256.New()
	fmt.Fprintf(h, "images %d %+v\n", pictureVersion, o)
	for i := range p.list {
		h.Write(p.list[i].digest[:])
	}
	return filecache.Key(h.Sum(nil))
}

// guard runs f, which reads samples.
func (t *table) guard(f func() error) error {
	if t.mapping == nil {
		return f()
	}
	return t.mapping.Guard(f)
}
