package datasets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"weak"

	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tabular"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/osfile"
)

// Shelf has the data that several users read at once, in memory once for all of them. The zero value
// is empty, and a nil Shelf shares nothing. Its methods are safe for concurrent use.
type Shelf struct {
	joins sync.Mutex // held while the samples of two sets are compared, and before mu

	mu   sync.Mutex
	sets []*shelved
	left []remains // the newest last
}

// remains is data that nobody has any more. Who comes before the garbage collector has it without reading.
type remains struct {
	identity
	files []fs.FileInfo
	data  weak.Pointer[Dataset]
}

// mostLeft is how many remains a shelf remembers.
const mostLeft = 8

// shelved is data that is open, or about to be. The shelf's lock guards users and filled.
type shelved struct {
	identity
	files []fs.FileInfo // as they were before they were read
	users int           // that have it, or wait for it

	filled bool          // data is valid, and stays
	ready  chan struct{} // closed once the fields below are set
	data   *Dataset
	err    error
}

// Open is the function Open, unless data of the same options and the same files is on the shelf already:
// then it is that. A run that goes on has the data of one that has begun, where that is fitted alike. It
// is not read, either. Of data that had to be read, such as with another seed, samples that are on
// the shelf byte for byte are dropped for those. Nobody may change a Dataset of a shelf. The caller calls done
// once, when it has no more use for it; the last one takes it off the shelf. Who opens it right after that, as the next
// trial of a sweep does, has it again if the garbage collector has not freed it.
//
// Samples that a function writes are not shared.
func (s *Shelf) Open(ctx context.Context, spec Spec) (data *Dataset, done func(), err error) {
	id, ok := spec.identity()
	if s == nil || !ok {
		data, err = Open(ctx, spec)
		return data, func() {}, err
	}
	for {
		x, first := s.take(id, spec.stamps())
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
func (s *Shelf) Bytes() int64 {
	var parts []*Part
	for _, x := range s.filled() {
		parts = append(parts, x.data.parts()...)
	}
	return bytesOf(parts)
}

// filled are the sets that have their samples.
func (s *Shelf) filled() (list []*shelved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sets {
		if x.filled {
			list = append(list, x)
		}
	}
	return list
}

// remaining are sets that nobody has any more.
func (s *Shelf) remaining() (list []*shelved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.left {
		if data := r.data.Value(); data != nil {
			list = append(list, &shelved{identity: r.identity, files: r.files, data: data})
		}
	}
	return list
}

// take finds the data, or makes a place for it, which the first user is to fill.
func (s *Shelf) take(id identity, files []fs.FileInfo) (x *shelved, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sets {
		if x.identity == id && slices.EqualFunc(x.files, files, sameFile) {
			x.users++
			return x, false
		}
	}
	for i, r := range s.left {
		if data := r.data.Value(); data != nil && r.identity == id && slices.EqualFunc(r.files, files, sameFile) {
			x = &shelved{identity: id, files: files, users: 1, filled: true, ready: make(chan struct{}), data: data}
			close(x.ready)
			s.left = slices.Delete(s.left, i, i+1)
			s.sets = append(s.sets, x)
			return x, false
		}
	}
	x = &shelved{identity: id, files: files, users: 1, ready: make(chan struct{})}
	s.sets = append(s.sets, x)
	return x, true
}

var errUnread = errors.New("the data was not read")

// read fills the place, with samples that are there or from the files. Others never find data that could not
// be read, or whose files changed meanwhile.
func (s *Shelf) read(ctx context.Context, x *shelved, spec Spec) {
	x.err = errUnread // if Open panics
	defer func() {
		if x.err != nil || !slices.EqualFunc(x.files, spec.stamps(), sameFile) {
			s.drop(x)
		}
		close(x.ready)
	}()
	if x.data = s.goesOn(x, spec); x.data == nil {
		if x.data, x.err = Open(ctx, spec); x.err != nil {
			return
		}
		s.joins.Lock()
		defer s.joins.Unlock()
		s.join(x.data)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x.filled, x.err = true, nil
}

// goesOn is the data of a run that goes on, if it is there as another run has fitted it; otherwise nil.
func (s *Shelf) goesOn(x *shelved, spec Spec) *Dataset {
	if x.fitted == "" {
		return nil
	}
	for _, y := range append(s.filled(), s.remaining()...) {
		info := &y.data.Info
		switch {
		case y.options != x.options || !slices.EqualFunc(y.files, x.files, sameFile):
		case spec.Like != nil && info.hash() == x.fitted, spec.Like == nil && info.Tokenizer != nil && textHash(info.Tokenizer, info.Chat) == x.fitted:
			return y.data.again()
		}
	}
	return nil
}

// join puts samples that are there already in place of equal ones that were read.
func (s *Shelf) join(data *Dataset) {
	for _, x := range s.filled() {
		for _, there := range x.data.parts() {
			for _, p := range data.parts() {
				p.table.join(there.table)
			}
		}
	}
}

// leave gives up one use.
func (s *Shelf) leave(x *shelved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.users--
	i := slices.Index(s.sets, x)
	if x.users > 0 || i < 0 {
		return
	}
	s.sets = slices.Delete(s.sets, i, i+1)
	if x.filled {
		s.left = append(s.left, remains{x.identity, x.files, weak.Make(x.data)})
		s.left = s.left[max(0, len(s.left)-mostLeft):]
	}
}

// drop takes the data off the shelf.
func (s *Shelf) drop(x *shelved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets = slices.DeleteFunc(s.sets, func(other *shelved) bool { return other == x })
}

// identity is all that decides the data, but for the contents of files.
type identity struct {
	options string // but for those of columns, of which a run that goes on has what was found
	columns string // as a run that begins asks for them; "": it goes on
	// fitted is what a run that goes on has of its checkpoint: the hash of its tokenizer, or else of its Info;
	// "": it has nothing.
	fitted string
}

// identity is that of the data. ok is false where it cannot be told.
func (s Spec) identity() (id identity, ok bool) {
	if s.Filled != nil {
		return id, false
	}
	if s.Text.Known != nil {
		id.fitted = textHash(s.Text.Known, s.Text.KnownChat)
	}
	asked, err := json.Marshal(s.Columns)
	if err != nil {
		return id, false
	}
	id.columns = string(asked)
	if s.Like != nil && s.GoesOn {
		id.columns, id.fitted = "", s.Like.hash()
		s.Like, s.GoesOn = nil, false
	}
	s.Columns = columns.Options{}
	options, err := json.Marshal(s)
	id.options = string(options)
	return id, err == nil && (id.columns != "" || id.fitted != "")
}

// textHash is that of a tokenizer and of how its conversations become text.
func textHash(t tokenizer.Tokenizer, f *chat.Format) string {
	if f == nil {
		return t.Hash()
	}
	text, _ := json.Marshal(f) // strings and numbers always encode
	sum := sha256.Sum256(text)
	return t.Hash() + hex.EncodeToString(sum[:])
}

// stamps are the files that the data is read from, as they are now. Those of a folder are all that it has.
func (s Spec) stamps() (list []fs.FileInfo) {
	paths := append(s.textPaths(), s.Text.Tokenizer, s.Text.ChatTemplate)
	if dir := s.tokenizerFolder(); dir != "" && dir != s.Text.Tokenizer {
		for _, name := range append([]string{chatFile}, endFiles...) {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	if d := s.Division; d != nil {
		paths = append(paths, d.ValPath, d.TestPath)
	}
	for _, path := range paths {
		if path == "" { // which would be the working folder
			continue
		}
		found := []string{osfile.Resolve(path)}
		switch st, err := os.Stat(found[0]); {
		case s.Source == "csv":
			found, _ = tabular.Matches(path)
		case s.Source == "images" && err == nil && !st.IsDir():
			found[0] = filepath.Dir(found[0]) // the images of a table are beside it
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
