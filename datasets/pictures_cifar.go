package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/datasets/images"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/units"
)

// An image of CIFAR is its labels, a byte each, and the planes of red, green and blue. The last label is the class.
const (
	cifarSide   = 32
	cifarPixels = 3 * cifarSide * cifarSide
)

// cifarKind is one of the two sets.
type cifarKind struct {
	name        string
	train, test string // patterns of the files
	labels      int    // bytes before the pixels
	meta        string // the file with the names of the classes, a line each
	classes     int
}

var cifarKinds = []cifarKind{
	{"CIFAR-10", "data_batch*.bin", "test_batch.bin", 1, "batches.meta.txt", 10},
	{"CIFAR-100", "train.bin", "test.bin", 2, "fine_label_names.txt", 100},
}

// listCIFAR lists the images in the files of CIFAR; nil if there are none.
func (s Spec) listCIFAR(folder bool) (sets []*pictureSet, err error) {
	for _, kind := range cifarKinds {
		for _, pattern := range []string{kind.train, kind.test} {
			if len(sets) > 0 && (s.Split != 0 || s.Division != nil) {
				break
			}
			dir, files := s.Path, []string(nil)
			if folder {
				if files, err = matching(s.Path, pattern); err != nil {
					return nil, err
				}
			} else {
				dir = filepath.Dir(s.Path)
				if ok, _ := filepath.Match(pattern, filepath.Base(s.Path)); ok {
					files = []string{s.Path}
				}
			}
			if len(files) == 0 {
				continue
			}
			p, err := s.openCIFAR(kind, dir, files)
			if err != nil {
				closeAll(sets, &err)
				return nil, err
			}
			sets = append(sets, p)
		}
		if sets != nil {
			return sets, nil
		}
	}
	return nil, nil
}

// matching lists the files of a pattern in a folder, whose own name is no pattern.
func matching(folder, pattern string) (list []string, err error) {
	names, err := fs.Glob(os.DirFS(folder), pattern)
	for _, name := range names {
		list = append(list, filepath.Join(folder, name))
	}
	return list, err
}

// openCIFAR lists the images of some files.
func (s Spec) openCIFAR(kind cifarKind, dir string, paths []string) (_ *pictureSet, err error) {
	if d := s.Division; d != nil && d.needsKeys() {
		return nil, blame("split", fmt.Errorf("%w: %s: the files of %s have no columns to divide images by: leave by and latest out", ErrSpec, s.Path, kind.name))
	}
	source := &cifarFiles{labels: int64(kind.labels), open: map[string]*os.File{}}
	p := &pictureSet{path: s.Path, source: source, progress: s.Text.Progress, someClasses: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, source.Close())
		}
	}()
	if p.names, err = kind.names(dir); err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := source.list(p, path); err != nil {
			return nil, err
		}
	}
	return p, p.follow(s)
}

// names are those of the classes; their numbers, if there is no file with them.
func (k *cifarKind) names(dir string) (names []string, err error) {
	text, err := osfile.Read(filepath.Join(dir, k.meta), 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		for i := range k.classes {
			names = append(names, strconv.Itoa(i))
		}
		return names, nil
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			names = append(names, line)
		}
	}
	if err == nil && len(names) != k.classes {
		err = fmt.Errorf("%w: %s has %s, and %s has %d: take the file of the set, or remove it", ErrFormat, filepath.Join(dir, k.meta), units.Count(len(names), "name"), k.name, k.classes)
	}
	return names, err
}

// cifarFiles have images as records of equal size.
type cifarFiles struct {
	labels int64
	open   map[string]*os.File
}

// list adds the images of a file.
func (c *cifarFiles) list(p *pictureSet, path string) error {
	f, err := osfile.Open(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	c.open[path] = f
	st, err := f.Stat()
	if err != nil {
		return err
	}
	record := c.labels + cifarPixels
	if st.Size() == 0 || st.Size()%record != 0 {
		return fmt.Errorf("%w: %s has %s, which are not whole images of %d: copy or download the file again", ErrFormat, path, units.Bytes(st.Size()), record)
	}
	label := make([]byte, 1)
	for i := range st.Size() / record {
		if _, err := f.ReadAt(label, i*record+c.labels-1); err != nil {
			return err
		}
		x := picture{path: path, number: int(i) + 1, class: int32(label[0])}
		if int(x.class) >= len(p.names) {
			return fmt.Errorf("%w: %s: its class is %d, and there are %d: is it a file of the set?", ErrFormat, x.name(), x.class, len(p.names))
		}
		p.list = append(p.list, x)
	}
	return nil
}

func (c *cifarFiles) size(*picture) (int64, error) { return cifarPixels, nil }

func (c *cifarFiles) read(x *picture) ([]byte, error) {
	b := make([]byte, cifarPixels)
	_, err := c.open[x.path].ReadAt(b, int64(x.number-1)*(c.labels+cifarPixels)+c.labels)
	return b, err
}

func (c *cifarFiles) Close() (err error) {
	for _, f := range c.open {
		err = errors.Join(err, f.Close())
	}
	return err
}

// look reads the header of an image's contents.
func (p *pictureSet) look(b []byte) (images.Header, error) {
	if _, planes := p.source.(*cifarFiles); planes {
		return images.Planes(cifarSide, cifarSide), nil
	}
	return images.Look(b)
}
