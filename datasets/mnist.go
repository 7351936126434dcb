package datasets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/berth-ml/berth/engine/shape"
)

// openMNIST reads IDX files of images and labels. The folder's train files are
// for training and its t10k files for validation, unless Split says otherwise;
// where one of the two is missing the other is split.
func openMNIST(ctx context.Context, s Spec) (*Dataset, error) {
	if s.Path == BuiltinMNIST {
		test, err := builtinMNIST(s)
		if err != nil {
			return nil, err
		}
		return imageDataset(s.Path, s, test, nil)
	}
	train, err := mnistPair(ctx, s, "train")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	test, errTest := mnistPair(ctx, s, "t10k")
	if errTest != nil && !errors.Is(errTest, fs.ErrNotExist) {
		return nil, errTest
	}
	switch {
	case train == nil && test == nil:
		return nil, fmt.Errorf("%w: %s has neither train-images-idx3-ubyte and train-labels-idx1-ubyte nor the same of t10k (.gz or not)", err, s.Path)
	case train == nil:
		return imageDataset("mnist "+s.Path, s, test, nil)
	case test == nil || s.Split != 0:
		return imageDataset("mnist "+s.Path, s, train, nil)
	}
	return imageDataset("mnist "+s.Path, s, train, test)
}

// imageDataset is labelled images: val, if not nil, is the validation part,
// otherwise t is split.
func imageDataset(name string, s Spec, t, val *table) (*Dataset, error) {
	ds := &Dataset{Name: name}
	tables := []*table{t}
	if val == nil {
		var err error
		if ds.Train, ds.Val, err = splitRandomly(t, s, s.part(fingerprint(s, s.Images, t), 0.8)); err != nil {
			return nil, err
		}
	} else {
		if have, want := val.columns[0].field.Meta, t.columns[0].field.Meta; !have.Equal(want) {
			return nil, fmt.Errorf("%w: %s: the t10k images are %v, the train images %v", ErrFormat, name, have, want)
		}
		ds.Train, ds.Val = &Part{table: t, count: t.rows}, &Part{table: val, count: val.rows}
		ds.Train.shuffleBy(s)
		tables = append(tables, val)
	}
	classes := 0
	for _, t := range tables {
		for _, v := range shape.View[int32](t.columns[1].data) {
			classes = max(classes, int(v)+1)
		}
	}
	names := make([]string, classes)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	ds.Info = Info{Inputs: []Field{t.columns[0].field}, Target: t.columns[1].field,
		Classes: classes, ClassNames: names, Fingerprint: fingerprint(s, s.Images, tables...)}
	return ds, nil
}

func builtinMNIST(s Spec) (*table, error) {
	images, err := readBuiltin("t10k-images-idx3-ubyte.gz")
	if err != nil {
		return nil, err
	}
	labels, err := readBuiltin("t10k-labels-idx1-ubyte.gz")
	if err != nil {
		return nil, err
	}
	return mnistTable(s, "t10k", images, labels)
}

// mnistPair reads the two files whose names begin with prefix.
func mnistPair(ctx context.Context, s Spec, prefix string) (*table, error) {
	images, err := readIDX(ctx, s.Path, prefix+"-images", "idx3-ubyte")
	if err != nil {
		return nil, err
	}
	labels, err := readIDX(ctx, s.Path, prefix+"-labels", "idx1-ubyte")
	if err != nil { // not fs.ErrNotExist: images without labels are no missing pair
		return nil, fmt.Errorf("%w: labels of %s-images: %v", ErrFormat, prefix, err)
	}
	return mnistTable(s, filepath.Join(s.Path, prefix), images, labels)
}

// readIDX reads a file under any of the names it is published as. It fails with
// fs.ErrNotExist if there is none.
func readIDX(ctx context.Context, dir, stem, suffix string) ([]byte, error) {
	for _, name := range []string{stem + "-" + suffix, stem + "." + suffix} {
		for _, ext := range []string{"", ".gz"} {
			data, err := readFile(ctx, filepath.Join(dir, name+ext))
			if !errors.Is(err, fs.ErrNotExist) {
				return data, err
			}
		}
	}
	return nil, fmt.Errorf("%s: %w", filepath.Join(dir, stem+"-"+suffix), fs.ErrNotExist)
}

func mnistTable(s Spec, name string, imageFile, labelFile []byte) (*table, error) {
	images, dims, err := parseIDX(imageFile, 3)
	if err != nil {
		return nil, fmt.Errorf("%s-images: %w", name, err)
	}
	raw, n, err := parseIDX(labelFile, 1)
	if err != nil {
		return nil, fmt.Errorf("%s-labels: %w", name, err)
	}
	if n[0] != dims[0] {
		return nil, fmt.Errorf("%w: %s: %d images but %d labels", ErrFormat, name, dims[0], n[0])
	}
	labels := make([]int32, len(raw))
	for i, v := range raw {
		labels[i] = int32(v)
	}
	f := Field{"input", shape.F32(1, dims[1], dims[2])}
	return imageTable(f, images, s.Images.scale(255), labels), nil
}

// mnistInputs reads one IDX file of images.
func mnistInputs(ctx context.Context, s Spec, _ *Info, path string) (*table, error) {
	raw, err := readFile(ctx, path)
	if err != nil {
		return nil, err
	}
	images, dims, err := parseIDX(raw, 3)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return imageTable(Field{"input", shape.F32(1, dims[1], dims[2])}, images, s.Images.scale(255), nil), nil
}

// parseIDX is the contents and dimensions of an IDX file of bytes: two zeros,
// the element type (8: unsigned byte), the rank, each dimension as a
// big-endian word, then the elements.
func parseIDX(file []byte, rank int) ([]byte, []int, error) {
	header := 4 + 4*rank
	if len(file) < header {
		return nil, nil, fmt.Errorf("%w: %d bytes are too few for an IDX header", ErrFormat, len(file))
	}
	if file[0] != 0 || file[1] != 0 || file[2] != 8 || int(file[3]) != rank {
		return nil, nil, fmt.Errorf("%w: IDX header %x, expected 000008%02x (bytes in %d dimensions)", ErrFormat, file[:4], rank, rank)
	}
	dims := make([]int, rank)
	size := uint64(1)
	for i := range dims {
		d := binary.BigEndian.Uint32(file[4+4*i:])
		if d == 0 {
			return nil, nil, fmt.Errorf("%w: IDX dimension %d is 0", ErrFormat, i)
		}
		dims[i] = int(d)
		if size *= uint64(d); size > uint64(len(file)) {
			return nil, nil, fmt.Errorf("%w: the IDX header announces more than the file's %d bytes", ErrFormat, len(file))
		}
	}
	if have := uint64(len(file) - header); size != have {
		return nil, nil, fmt.Errorf("%w: the IDX header announces %d bytes, %d follow it", ErrFormat, size, have)
	}
	return file[header:], dims, nil
}
