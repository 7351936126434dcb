package datasets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// openMNIST reads IDX files of images and labels. If Split is 0, there is no Division and the folder
// has both pairs, the train pair is the training part and the t10k pair the
// validation part. Otherwise one pair is split: train, or else t10k.
func openMNIST(ctx context.Context, s Spec) (_ *Dataset, err error) {
	pairs, err := openPairs(ctx, s)
	if err != nil {
		return nil, err
	}
	need := int64(0)
	for _, p := range pairs {
		defer func() { err = errors.Join(err, p.Close()) }()
		need += p.images.memory() + p.labels.memory()
	}
	if err := fits(s.Path, need, s.Memory); err != nil {
		return nil, err
	}
	var tables [2]*table // the second is nil without validation images of their own
	for i, p := range pairs {
		if tables[i], err = p.table(ctx, s); err != nil {
			return nil, err
		}
	}
	name := s.Path
	if name != BuiltinMNIST {
		name = "mnist " + name
	}
	return imageDataset(ctx, name, s, tables[0], tables[1])
}

// imagePair is the files of images and of their labels.
type imagePair struct {
	name           string // for errors
	images, labels *array
}

// openPairs opens the pairs of files to read: that to train on, and that to
// validate with if there is one.
func openPairs(ctx context.Context, s Spec) ([]*imagePair, error) {
	if s.Path == BuiltinMNIST {
		p, err := newPair("t10k", func(what, suffix string) (*files.Stream, error) {
			return openBuiltin(ctx, "t10k-"+what+"-"+suffix+".gz")
		})
		return []*imagePair{p}, err
	}
	s.Path = osfile.Resolve(s.Path)
	var pairs []*imagePair
	var missing error
	for _, prefix := range []string{"train", "t10k"} {
		p, err := newPair(filepath.Join(s.Path, prefix), func(what, suffix string) (*files.Stream, error) {
			return openIDX(ctx, s.Path, prefix+"-"+what, suffix)
		})
		switch {
		case err == nil:
			pairs = append(pairs, p)
		case !errors.Is(err, fs.ErrNotExist):
			for _, p := range pairs {
				err = errors.Join(err, p.Close())
			}
			return nil, err
		case missing == nil:
			missing = err
		}
		if len(pairs) > 0 && (s.Split != 0 || s.Division != nil) {
			break
		}
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%w: %s has neither train-images-idx3-ubyte and train-labels-idx1-ubyte nor the pair of t10k (.gz or not)", missing, s.Path)
	}
	return pairs, nil
}

// newPair reads the headers of two files that open opens, and checks that they
// fit. It fails with fs.ErrNotExist if there are no images.
func newPair(name string, open func(what, suffix string) (*files.Stream, error)) (p *imagePair, err error) {
	p = &imagePair{name: name}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	in, err := open("images", "idx3-ubyte")
	if err != nil {
		return p, err
	}
	if p.images, err = parseIDX(in, 3); err != nil {
		return p, errors.Join(fmt.Errorf("%s-images: %w", name, err), in.Close())
	}
	in, err = open("labels", "idx1-ubyte")
	if errors.Is(err, fs.ErrNotExist) { // a fault, not a missing pair
		return p, fmt.Errorf("%w: labels of %s-images: %v", ErrFormat, filepath.Base(name), err)
	}
	if err != nil {
		return p, err
	}
	if p.labels, err = parseIDX(in, 1); err != nil {
		return p, errors.Join(fmt.Errorf("%s-labels: %w", name, err), in.Close())
	}
	if images, labels := p.images.shape[0], p.labels.shape[0]; images != labels {
		return p, fmt.Errorf("%w: %s: %s but %s: use the two files of one set", ErrFormat, name, units.Count(images, "image"), units.Count(labels, "label"))
	}
	return p, nil
}

func (p *imagePair) Close() (err error) {
	for _, a := range []*array{p.images, p.labels} {
		if a != nil {
			err = errors.Join(err, a.Close())
		}
	}
	return err
}

// table reads the pair.
func (p *imagePair) table(ctx context.Context, s Spec) (*table, error) {
	images, err := p.images.stored(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s-images: %w", p.name, err)
	}
	labels, err := p.labels.stored(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s-labels: %w", p.name, err)
	}
	return imageTable(imageField(p.images), images, s.Images.scale(255), labels), nil
}

// imageField is the input that one image of an IDX file is.
func imageField(a *array) Field { return Field{"input", shape.F32(1, a.shape[1], a.shape[2])} }

// openIDX opens a file under any of the names that it is published as. It fails
// with fs.ErrNotExist if there is none.
func openIDX(ctx context.Context, dir, stem, suffix string) (*files.Stream, error) {
	for _, name := range []string{stem + "-" + suffix, stem + "." + suffix} {
		for _, ext := range []string{"", ".gz"} {
			in, err := files.Open(ctx, filepath.Join(dir, name+ext))
			if !errors.Is(err, fs.ErrNotExist) {
				return in, err
			}
		}
	}
	return nil, fmt.Errorf("%s: %w", filepath.Join(dir, stem+"-"+suffix), fs.ErrNotExist)
}

// mnistInputs reads one IDX file of images.
func mnistInputs(ctx context.Context, s Spec, _ *Info, path string) (_ *table, err error) {
	in, err := files.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	a, err := parseIDX(in, 3)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := fits(path, a.memory(), s.Memory); err != nil {
		return nil, err
	}
	images, err := a.stored(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return imageTable(imageField(a), images, s.Images.scale(255), nil), nil
}

// scale is the table of the values that pixels of 0 to top read as, of one channel.
func (o ImageOptions) scale(top int) [][256]float32 {
	t := make([][256]float32, 1)
	for i := range t[0] {
		v := float64(i) / float64(top)
		if o.Std != 0 {
			v = (v - o.Mean) / o.Std
		}
		t[0][i] = float32(v)
	}
	return t
}

// imageTable is the table of images and, unless labels is nil, their classes.
func imageTable(f Field, pixels []byte, scale [][256]float32, labels []byte) *table {
	t := &table{rows: len(pixels) / f.Meta.Elems(), columns: []column{pixelColumn(f, pixels, scale)}}
	if labels != nil {
		t.columns = append(t.columns, storedColumn(Field{"target", shape.I32()}, labels, safetensors.U8))
	}
	return t
}

// imageDataset is the dataset of labelled images. val holds the validation
// samples; if it is nil, t is split.
func imageDataset(ctx context.Context, name string, s Spec, t, val *table) (*Dataset, error) {
	tables := []*table{t}
	if val != nil {
		tables = append(tables, val)
	}
	print, err := fingerprint(ctx, s, s.Images, tables...)
	if err != nil {
		return nil, err
	}
	names, err := classNumbers(ctx, tables)
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: name, Info: Info{Inputs: []Field{t.columns[0].field}, Target: t.columns[1].field,
		Classes: len(names), ClassNames: names, Fingerprint: print}}
	if val == nil {
		keys, err := targetClasses(ctx, s, t)
		if err != nil {
			return nil, err
		}
		return ds, ds.split(t, s, s.trainFraction(print, 0.8), keys)
	}
	if have, want := val.columns[0].field.Meta, t.columns[0].field.Meta; !have.Equal(want) {
		return nil, fmt.Errorf("%w: %s: the t10k images are %v, the train images %v: use the files of one set", ErrFormat, name, have, want)
	}
	ds.Train, ds.Val = &Part{table: t, count: t.rows}, &Part{table: val, count: val.rows}
	shuffle(ds.Train, s)
	return ds, nil
}

// classNumbers lists the numbers 0, 1, … up to the largest label.
func classNumbers(ctx context.Context, tables []*table) ([]string, error) {
	classes := 0
	for _, t := range tables {
		err := t.columns[1].elements(ctx, func(part []byte) error {
			for _, v := range shape.View[int32](part) {
				classes = max(classes, int(v)+1)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	names := make([]string, classes)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names, nil
}

// parseIDX reads the header of an IDX file of bytes. The file is two zeros, the
// element type (8: unsigned byte), the rank, each dimension as a big-endian word,
// then the elements.
func parseIDX(in *files.Stream, rank int) (*array, error) {
	length := 4 + 4*rank
	head, err := in.Head(length)
	if err != nil {
		return nil, err
	}
	if len(head) < length {
		return nil, fmt.Errorf("%w: %d bytes are too few for an IDX header: copy or download the file again", ErrFormat, len(head))
	}
	if head[0] != 0 || head[1] != 0 || head[2] != 8 || int(head[3]) != rank {
		return nil, fmt.Errorf("%w: IDX header %x, expected 000008%02x (bytes in %d dimensions): is it the right file?", ErrFormat, head[:4], rank, rank)
	}
	a := &array{dtype: safetensors.U8, shape: make(shape.Shape, rank), in: in}
	size := uint64(1)
	for i := range a.shape {
		d := binary.BigEndian.Uint32(head[4+4*i:])
		if d == 0 {
			return nil, fmt.Errorf("%w: IDX dimension %d is 0: the file has no elements", ErrFormat, i)
		}
		a.shape[i] = int(d)
		if size *= uint64(d); size > uint64(in.Left) {
			return nil, fmt.Errorf("%w: the IDX header gives more elements than the file has bytes: copy or download it again", ErrFormat)
		}
	}
	if err := a.checkSize(); err != nil {
		return nil, err
	}
	return a, nil
}
