package datasets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/berth-ml/berth/engine/shape"
)

// openMNIST reads IDX files of images and labels. If Split is 0 and the folder
// has both pairs, the train pair is the training part and the t10k pair the
// validation part. Otherwise one pair is split: train, or else t10k.
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
		return nil, fmt.Errorf("%w: %s has neither train-images-idx3-ubyte and train-labels-idx1-ubyte nor the pair of t10k (.gz or not)", err, s.Path)
	case train == nil:
		return imageDataset("mnist "+s.Path, s, test, nil)
	case test == nil || s.Split != 0:
		return imageDataset("mnist "+s.Path, s, train, nil)
	}
	return imageDataset("mnist "+s.Path, s, train, test)
}

// builtinMNIST is the table of the images inside the binary.
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

// mnistPair reads the images and labels of prefix. It fails with fs.ErrNotExist
// if there are no images.
func mnistPair(ctx context.Context, s Spec, prefix string) (*table, error) {
	images, err := readIDX(ctx, s.Path, prefix+"-images", "idx3-ubyte")
	if err != nil {
		return nil, err
	}
	labels, err := readIDX(ctx, s.Path, prefix+"-labels", "idx1-ubyte")
	if err != nil { // never fs.ErrNotExist: images without labels are a fault, not a missing pair
		return nil, fmt.Errorf("%w: labels of %s-images: %v", ErrFormat, prefix, err)
	}
	return mnistTable(s, filepath.Join(s.Path, prefix), images, labels)
}

// readIDX reads a file under any of the names that it is published as. It fails
// with fs.ErrNotExist if there is none.
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

// mnistTable is the table of images and labels in IDX files.
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
		return nil, fmt.Errorf("%w: %s: %d images but %d labels: use the two files of one set", ErrFormat, name, dims[0], n[0])
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
