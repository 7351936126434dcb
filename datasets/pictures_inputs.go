package datasets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-ml/berth/datasets/images"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/shape"
)

// pictureInputs reads images to predict from: a file, all in a folder and below it, those of a table, or a file of CIFAR.
// Their paths are beside the answers.
func pictureInputs(ctx context.Context, s Spec, info *Info, path string) (_ *table, err error) {
	if info.Pictures == nil {
		return nil, fmt.Errorf("%w: the model was not trained on images: use the source that it was trained on", ErrSpec)
	}
	s.Path, s.Like, s.Division, s.Split = osfile.Resolve(path), nil, nil, 1
	p, err := s.listInputs(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.source.Close()) }()
	if err := p.lookAll(ctx); err != nil {
		return nil, err
	}
	t, err := p.table(ctx, s, info.pictureShape())
	if err != nil {
		return nil, err
	}
	t.columns[0].scale = info.Pictures.scale()
	for _, note := range p.allNotes() {
		s.note(path + ": " + note)
	}
	return t, nil
}

// listInputs lists images, whatever their classes are.
func (s Spec) listInputs(ctx context.Context) (*pictureSet, error) {
	st, err := os.Stat(s.Path)
	if err != nil {
		return nil, err
	}
	if sets, err := s.listCIFAR(st.IsDir()); err != nil || sets != nil {
		if err != nil {
			return nil, err
		}
		return sets[0], nil
	}
	switch {
	case st.IsDir():
		p, err := s.newPictureSet(s.Path)
		if err != nil {
			return nil, err
		}
		if _, err = p.walk(ctx, ".", 0, 0); err == nil && len(p.list) == 0 {
			err = fmt.Errorf("%w: %s has no images (%s): name a folder with some", ErrTooFew, s.Path, images.Endings())
		}
		if err != nil {
			return nil, errors.Join(err, p.source.Close())
		}
		return p, nil
	case !slices.Contains([]string{".csv", ".tsv", ".jsonl", ".parquet", ".gz", ".zst"}, strings.ToLower(filepath.Ext(s.Path))):
		p, err := s.newPictureSet(filepath.Dir(s.Path))
		if err == nil {
			p.list = []picture{{path: filepath.Base(s.Path)}}
		}
		return p, err
	}
	return s.listTable(ctx, false)
}

// ImageMemory is a bound of the bytes that DecodeImage takes for an image with that header, beside its file.
func (i *Info) ImageMemory(h images.Header) int64 { return h.Memory(i.pictureShape()) }

// DecodeImage decodes an image in memory, of which h is the header, into a sample.
func (i *Info) DecodeImage(file []byte, h images.Header, sample []float32) error {
	o := i.pictureShape()
	pixels := make([]byte, o.Bytes())
	if err := images.Decode(file, h, o, pixels); err != nil {
		return err
	}
	c := pixelColumn(i.Inputs[0], pixels, i.Pictures.scale())
	c.fill(0, shape.Bytes(sample))
	return nil
}

// Standardise turns a sample's pixels from 0 to 1 into what a model of images reads, in place.
func (p *Pictures) Standardise(sample []float32) {
	plane := len(sample) / len(p.Mean)
	for i, v := range sample {
		sample[i] = float32((float64(v) - p.Mean[i/plane]) / p.Std[i/plane])
	}
}
