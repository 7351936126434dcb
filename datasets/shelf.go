package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/berth-ml/berth/datasets/tabular"
	"github.com/berth-ml/berth/engine/osfile"
)

// Shelf has the data that several users read at once, in memory once for all of them. The zero value
// is empty, and a nil Shelf shares nothing. Its methods are safe for concurrent use.
type Shelf struct {
	mu   sync.Mutex
	sets []*shelved
}

// shelved is data that is open, or about to be. The shelf's lock guards users.
type shelved struct {
	key   string
	files []fs.FileInfo // as they were before they were read
	users int           // that have it, or wait for it

	ready chan struct{} // closed once the fields below are set
	data  *Dataset
	err   error
}

// Open is the function Open, unless data of the same options and the same files is on the shelf already:
// then it is that. Nobody may change a Dataset of a shelf. The caller calls done once, when it has no
// more use for it; the last one takes it off the shelf.
//
// Samples that a function writes are not shared.
func (s *Shelf) Open(ctx context.Context, spec Spec) (data *Dataset, done func(), err error) {
	key, ok := spec.identity()
	if s == nil || !ok {
		data, err = Open(ctx, spec)
		return data, func() {}, err
	}
	for {
		x, first := s.take(key, spec.stamps())
		if first {
			s.read(ctx, x, spec)
		}
		select {
		case <-x.ready:
			err = x.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err == nil {
			return x.data, sync.OnceFunc(func() { s.leave(x) }), nil
		}
		s.leave(x)
		if first || ctx.Err() != nil { // another's failure may come from its context
			return nil, nil, err
		}
	}
}

// Bytes is the host memory of the data that is open.
func (s *Shelf) Bytes() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sets {
		select {
		case <-x.ready:
			n += x.data.Bytes()
		default:
		}
	}
	return n
}

// take finds the data, or makes a place for it, which the first user is to fill.
func (s *Shelf) take(key string, files []fs.FileInfo) (x *shelved, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sets {
		if x.key == key && slices.EqualFunc(x.files, files, sameFile) {
			x.users++
			return x, false
		}
	}
	x = &shelved{key: key, files: files, users: 1, ready: make(chan struct{})}
	s.sets = append(s.sets, x)
	return x, true
}

var errUnread = errors.New("the data was not read")

// read fills the place. Others never find data that could not be read, or whose files changed meanwhile.
func (s *Shelf) read(ctx context.Context, x *shelved, spec Spec) {
	x.err = errUnread // if Open panics
	defer func() {
		if x.err != nil || !slices.EqualFunc(x.files, spec.stamps(), sameFile) {
			s.drop(x)
		}
		close(x.ready)
	}()
	x.data, x.err = Open(ctx, spec)
}

// leave gives up one use.
func (s *Shelf) leave(x *shelved) {
	s.mu.Lock()
	x.users--
	unused := x.users == 0
	s.mu.Unlock()
	if unused {
		s.drop(x)
	}
}

// drop takes the data off the shelf.
func (s *Shelf) drop(x *shelved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets = slices.DeleteFunc(s.sets, func(other *shelved) bool { return other == x })
}

// identity is all that decides the data, but for the contents of files. ok is false where it cannot be told.
func (s Spec) identity() (key string, ok bool) {
	if s.Filled != nil {
		return "", false
	}
	tokens := ""
	if s.Text.Known != nil {
		tokens = s.Text.Known.Hash()
	}
	text, err := json.Marshal(struct {
		Spec
		Known string
	}{s, tokens})
	return string(text), err == nil
}

// stamps are the files that the data is read from, as they are now. Those of a folder are all that it has.
func (s Spec) stamps() (list []fs.FileInfo) {
	paths := append(s.textPaths(), s.Text.Tokenizer)
	if d := s.Division; d != nil {
		paths = append(paths, d.ValPath, d.TestPath)
	}
	for _, path := range paths {
		found := []string{osfile.Resolve(path)}
		if s.Source == "csv" {
			found, _ = tabular.Matches(path)
		}
		for _, name := range found {
			list = append(list, stampsIn(name)...)
		}
	}
	return list
}

// stampsIn are those of a file or a folder. What is missing has none.
func stampsIn(path string) (list []fs.FileInfo) {
	root, err := filepath.EvalSymlinks(path) // a walk follows no link
	if err != nil {
		return nil
	}
	_ = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if st, err := os.Stat(name); err == nil { // of the file that a link leads to
			list = append(list, st)
		}
		return nil
	})
	return list
}

// sameFile reports whether a file has not changed.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
