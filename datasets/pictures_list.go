package datasets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-ml/berth/datasets/images"
	"github.com/berth-ml/berth/datasets/tabular"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/units"
)

// picture is an image of a set.
type picture struct {
	path   string // of its file, from the set's folder on, with slashes
	number int    // of the record in the file, from 1; 0: the file is the image
	class  int32
	group  int32   // of Division.By
	latest float64 // of Division.Latest
	size   int64   // of the file, or the record
	header images.Header
	digest [32]byte // SHA-256 of the contents
}

// name names the image in messages.
func (x *picture) name() string {
	if x.number > 0 {
		return fmt.Sprintf("%s: image %s", x.path, units.Thousands(x.number))
	}
	return x.path
}

// pictureSource has the contents of images. Both functions fail with images.ErrImage where an image is to be left out.
type pictureSource interface {
	size(x *picture) (int64, error)
	read(x *picture) ([]byte, error)
	Close() error
}

// pictureSet is images that are decoded together.
type pictureSet struct {
	path        string // of the data, for errors
	source      pictureSource
	list        []picture
	names       []string // of the classes
	someClasses bool     // names may have more classes than the images
	keyed       bool     // the images have group or latest
	notes       []string
	left        leftOut
	progress    func(doing string, share float64)
}

func closeAll(sets []*pictureSet, err *error) {
	for _, p := range sets {
		*err = errors.Join(*err, p.source.Close())
	}
}

// allNotes say what was left out.
func (p *pictureSet) allNotes() []string {
	return append(slices.Clone(p.notes), p.left.notes(len(p.list))...)
}

// leftOut counts images that cannot be read.
type leftOut struct {
	count int
	first string // with its reason
}

func (l *leftOut) add(x *picture, err error) {
	if l.count++; l.count == 1 {
		l.first = fmt.Sprintf("%s: %v", x.name(), err)
	}
}

// mostLeftOut is the share of the images that may be left out: where more are, something else is wrong.
const mostLeftOut = 0.1

// check refuses images of which too many cannot be read, and only good are left.
func (l *leftOut) check(path string, good int) error {
	if all := good + l.count; float64(l.count) > float64(mostLeftOut*float64(all)) {
		return fmt.Errorf("%w: %s: %s of %s cannot be read, and up to a tenth may be left out; the first is %s", ErrFormat, path, units.Thousands(l.count), units.Count(all, "image"), l.first)
	}
	return nil
}

func (l *leftOut) because() string {
	if l.count == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s left out; the first is %s)", units.Count(l.count, "image"), l.first)
}

func (l *leftOut) notes(good int) []string {
	if l.count == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s of %s left out; the first is %s", units.Thousands(l.count), units.Count(good+l.count, "image"), l.first)}
}

// listPictures finds the images of s, with their classes. There are two sets where the files have one of their own to
// validate with and s asks for no other.
func listPictures(ctx context.Context, s Spec) ([]*pictureSet, error) {
	s.Path = osfile.Resolve(s.Path)
	st, err := os.Stat(s.Path)
	if err != nil {
		return nil, err
	}
	if sets, err := s.listCIFAR(st.IsDir()); sets != nil || err != nil {
		return sets, err
	}
	var p *pictureSet
	if st.IsDir() {
		p, err = s.listFolders(ctx)
	} else {
		p, err = s.listTable(ctx, true)
	}
	if err != nil {
		return nil, err
	}
	return []*pictureSet{p}, nil
}

// newPictureSet reads images from a folder.
func (s Spec) newPictureSet(folder string) (*pictureSet, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	return &pictureSet{path: s.Path, source: pictureFolder{root}, progress: s.Text.Progress}, nil
}

// listFolders lists a folder with a folder for each class.
func (s Spec) listFolders(ctx context.Context) (_ *pictureSet, err error) {
	if d := s.Division; d != nil && d.needsKeys() {
		return nil, blame("split", fmt.Errorf("%w: %s is a folder, which has no columns to divide images by: name a table with their paths, or leave by and latest out", ErrSpec, s.Path))
	}
	p, err := s.newPictureSet(s.Path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.source.Close())
		}
	}()
	root := p.source.(pictureFolder).Root
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var others, loose int
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		folder := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			st, err := root.Stat(name)
			if err != nil && !images.Named(name) {
				return nil, fmt.Errorf("%w: %s: %s", ErrFormat, filepath.Join(s.Path, name), linkText)
			}
			folder = err == nil && st.IsDir()
		}
		switch {
		case folder:
			before := len(p.list)
			class := int32(len(p.names))
			if others, err = p.walk(ctx, name, class, others); err != nil {
				return nil, err
			}
			if len(p.list) == before {
				return nil, fmt.Errorf("%w: %s has no images (%s), and each folder is a class: put images there, or take the folder away", ErrTooFew, filepath.Join(s.Path, name), images.Endings())
			}
			p.names = append(p.names, name)
		case images.Named(name):
			loose++
		default:
			others++
		}
	}
	if len(p.names) == 0 {
		return nil, fmt.Errorf("%w: %s has no folder with images: put those of each class into a folder of its own, or name a table with their paths and classes", ErrTooFew, s.Path)
	}
	if err := p.checkParts(s); err != nil {
		return nil, err
	}
	if loose > 0 {
		p.notes = append(p.notes, fmt.Sprintf("%s beside the folders of the classes left out", units.Count(loose, "image")))
	}
	if others > 0 {
		p.notes = append(p.notes, fmt.Sprintf("%s that are no images by their names left out", units.Count(others, "file")))
	}
	return p, p.follow(s)
}

// partNames are folders that others name so for the images that train, validate or test.
var partNames = []string{"train", "training", "val", "valid", "validation", "dev", "test", "testing"}

// checkParts refuses folders of parts in place of classes: all have such a name, and each image is in a folder of theirs.
func (p *pictureSet) checkParts(s Spec) error {
	if s.Like != nil || len(p.names) < 2 {
		return nil
	}
	train := ""
	for _, name := range p.names {
		if !slices.Contains(partNames, strings.ToLower(name)) {
			return nil
		}
		if strings.HasPrefix(strings.ToLower(name), "train") {
			train = name
		}
	}
	if train == "" || slices.ContainsFunc(p.list, func(x picture) bool { return strings.Count(x.path, "/") < 2 }) {
		return nil
	}
	other := p.names[0]
	if other == train {
		other = p.names[1]
	}
	return blame("path", fmt.Errorf("%w: %s: its folders %s are parts of the data, and hold the folders of the classes: name the one that trains, with split: {val: %s}",
		ErrSpec, s.Path, few(p.names), filepath.Join(s.Path, other)))
}

// linkText says what is wrong with a link.
const linkText = "a link that leads out of the folder, or nowhere: put the images themselves there"

// walk adds the images in a folder and below it, in the order of their paths. It counts other files.
func (p *pictureSet) walk(ctx context.Context, folder string, class int32, others int) (int, error) {
	root := p.source.(pictureFolder).Root
	err := fs.WalkDir(root.FS(), folder, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", p.path, err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case strings.HasPrefix(e.Name(), ".") && e.IsDir() && name != ".":
			return fs.SkipDir
		case e.IsDir() || strings.HasPrefix(e.Name(), "."):
		case images.Named(name):
			p.list = append(p.list, picture{path: name, class: class})
		default:
			others++
		}
		return nil
	})
	return others, err
}

// follow gives the images the classes of s.Like, by their names.
func (p *pictureSet) follow(s Spec) error {
	if s.Like == nil {
		return nil
	}
	number := make([]int32, len(p.names))
	for i, name := range p.names {
		class, ok := s.Like.ClassNamed(name)
		if !ok {
			return fmt.Errorf("%w: %s: the class %.40q is none of the %d that the model was trained on: take its images out", ErrFormat, p.path, name, s.Like.Classes)
		}
		number[i] = int32(class)
	}
	for i := range p.list {
		p.list[i].class = number[p.list[i].class]
	}
	p.names, p.someClasses = s.Like.ClassNames, true
	return nil
}

// The names of the columns of a table of images; without them, the first column is the path and the last one the class.
var (
	pathColumns  = []string{"path", "file", "filename", "image"}
	classColumns = []string{"label", "class"}
)

// columnOf is the column with one of the names; -1 if there is none.
func columnOf(t *tabular.Table, names []string) int {
	return slices.IndexFunc(t.Names, func(name string) bool {
		return slices.Contains(names, strings.ToLower(strings.TrimSpace(name)))
	})
}

// listTable lists the images whose paths a table has, from its folder on.
func (s Spec) listTable(ctx context.Context, labelled bool) (_ *pictureSet, err error) {
	t, err := tabular.Open(ctx, s.Path, tabular.Options{Named: func(rows [][]string) bool { return (&headRows{rows}).named(nil) }})
	if err != nil {
		return nil, err
	}
	r := pictureRows{table: t, path: columnOf(t, pathColumns), class: columnOf(t, classColumns), key: -1, numbers: map[string]int32{}}
	if r.path < 0 {
		r.path = 0
	}
	if r.class < 0 {
		r.class = t.Width - 1
	}
	if !labelled {
		r.class = -1
	}
	if r.path == r.class {
		return nil, fmt.Errorf("%w: %s: a table of images needs a column of paths and one of classes, such as a first line of path,label%s", ErrFormat, s.Path, tabular.CommaHint(t.Other))
	}
	if err := r.divides(s); err != nil {
		return nil, err
	}
	p, err := s.newPictureSet(filepath.Dir(s.Path))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.source.Close())
		}
	}()
	used := make([]bool, t.Width)
	for _, c := range []int{r.path, r.class, r.key} {
		if c >= 0 {
			used[c] = true
		}
	}
	if err := t.Each(ctx, used, func(row *tabular.Row) error { return r.add(p, row) }); err != nil {
		return nil, err
	}
	if len(p.list) == 0 {
		return nil, fmt.Errorf("%w: %s has no rows: name an image in each", ErrTooFew, s.Path)
	}
	return p, cmpErr(r.end(p), p.sortClasses, func() error { return p.follow(s) })
}

// cmpErr is the first error of several steps.
func cmpErr(err error, then ...func() error) error {
	for _, f := range then {
		if err == nil {
			err = f()
		}
	}
	return err
}

// pictureRows reads a table of images.
type pictureRows struct {
	table            *tabular.Table
	path, class, key int // columns; -1: it is not read
	numbers          map[string]int32
	by               *valueGroups   // of the key; nil
	latest           *orderedColumn // of the key; nil
	option           string         // that names the key
}

// divides finds the column that divides the images. Other data than a model was trained on may lack it.
func (r *pictureRows) divides(s Spec) error {
	d := s.Division
	if d == nil || !d.needsKeys() || r.class < 0 {
		return nil
	}
	name := d.By + d.Latest // one of them
	if r.option = "split.by"; d.Latest != "" {
		r.option = "split.latest"
	}
	if r.key = slices.Index(r.table.Names, name); r.key < 0 {
		if s.Like != nil && !s.GoesOn {
			return nil
		}
		return blame(r.option, fmt.Errorf("%w: %s: there is no column %q to divide the images by among %s: name one of them in data.%s", ErrSpec, s.Path, name, strings.Join(r.table.Names, ", "), r.option))
	}
	if d.By != "" {
		r.by = &valueGroups{numbers: map[string]int32{}, most: s.Memory}
	} else {
		r.latest = newOrderedColumn(s.Columns, name, name)
	}
	return nil
}

// add adds the image of a row.
func (r *pictureRows) add(p *pictureSet, row *tabular.Row) error {
	x := picture{path: filepath.ToSlash(string(bytes.TrimSpace(row.Fields[r.path])))}
	if x.path == "" {
		return fmt.Errorf("%w: %s: the path is empty: fill it in or take the row out", ErrFormat, row.At(r.path))
	}
	x.path = path.Clean(x.path)
	if r.class >= 0 {
		name := string(bytes.TrimSpace(row.Fields[r.class]))
		class, known := r.numbers[name]
		switch {
		case name == "":
			return fmt.Errorf("%w: %s: the class is empty: fill it in or take the row out", ErrFormat, row.At(r.class))
		case !known && len(p.names) == mostPictureClasses:
			return fmt.Errorf("%w: %s: %.40q is the class number %d, and the limit is %d: take another column as the class", ErrFormat, row.At(r.class), name, mostPictureClasses+1, mostPictureClasses)
		case !known:
			class = int32(len(p.names))
			r.numbers[name], p.names = class, append(p.names, name)
		}
		x.class = class
	}
	var err error
	if r.by != nil {
		err = r.by.add(bytes.TrimSpace(row.Fields[r.key]))
	} else if r.latest != nil {
		err = r.latest.add(bytes.TrimSpace(row.Fields[r.key]))
	}
	if err != nil {
		return blame(r.option, fmt.Errorf("%w: %s: %w", ErrFormat, row.At(r.key), err))
	}
	p.list = append(p.list, x)
	return nil
}

// mostPictureClasses bounds the classes of a table.
const mostPictureClasses = 1 << 16

// end gives the images what divides them.
func (r *pictureRows) end(p *pictureSet) error {
	p.keyed = r.by != nil || r.latest != nil
	if r.by != nil {
		for i := range p.list {
			p.list[i].group = r.by.of[i]
		}
	}
	if r.latest == nil {
		return nil
	}
	values, err := r.latest.values()
	if err != nil {
		return blame(r.option, fmt.Errorf("%w: %s: %w", ErrSpec, p.path, err))
	}
	for i := range p.list {
		p.list[i].latest = values[i]
	}
	return nil
}

// sortClasses numbers the classes in the order of their names, which is that of folders.
func (p *pictureSet) sortClasses() error {
	sorted := slices.Sorted(slices.Values(p.names))
	number := make([]int32, len(sorted))
	for i, name := range p.names {
		at, _ := slices.BinarySearch(sorted, name)
		number[i] = int32(at)
	}
	for i := range p.list {
		if p.names != nil {
			p.list[i].class = number[p.list[i].class]
		}
	}
	p.names = sorted
	return nil
}

// pictureFolder has images in files. It follows no link out of its folder.
type pictureFolder struct{ *os.Root }

func (f pictureFolder) size(x *picture) (int64, error) {
	st, err := f.Lstat(filepath.FromSlash(x.path))
	if err == nil && st.Mode()&fs.ModeSymlink != 0 {
		if st, err = f.Stat(filepath.FromSlash(x.path)); err != nil {
			return 0, fmt.Errorf("%w: %s", images.ErrImage, linkText)
		}
	}
	_, system := errors.AsType[syscall.Errno](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("%w: there is no such file", images.ErrImage)
	case err != nil && !system:
		return 0, fmt.Errorf("%w: its path leads out of the folder", images.ErrImage)
	case err != nil:
		return 0, err
	case !st.Mode().IsRegular():
		return 0, fmt.Errorf("%w: it is no file", images.ErrImage)
	case st.Size() > images.MostBytes:
		return 0, fmt.Errorf("%w: %s are more than %s, the most that a file may have", images.ErrImage, units.Bytes(st.Size()), units.Bytes(images.MostBytes))
	}
	return st.Size(), nil
}

func (f pictureFolder) read(x *picture) (_ []byte, err error) {
	in, err := f.Open(filepath.FromSlash(x.path))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	b := bytes.NewBuffer(make([]byte, 0, x.size+bytes.MinRead))
	if _, err := b.ReadFrom(io.LimitReader(in, x.size+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) != x.size {
		return nil, changedPicture(x)
	}
	return b.Bytes(), nil
}

// changedPicture is the error of a file that is another one than before.
func changedPicture(x *picture) error {
	return fmt.Errorf("%w: %s changed while it was read: start again once the images are complete", ErrFormat, x.name())
}
