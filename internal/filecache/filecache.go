package filecache

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

// Variable is the environment variable that names the folder.
const Variable = "BERTH_CACHE"

// Contents is a sort of files. Files of several sorts may share a folder.
type Contents struct {
	Name  string // of the folder in the user's cache, and the files' suffix: "tokens"
	Magic string // the first 8 bytes of a file
	Most  int64  // bytes of all files in a folder, unless the folder says otherwise
}

// The sorts of files.
var (
	Tokens  = Contents{"tokens", "BERTHTK1", 32 << 30}
	Kernels = Contents{"kernels", "BERTHCL1", 1 << 30}
	Images  = Contents{"images", "BERTHIM1", 64 << 30}
	Curves  = Contents{"curves", "BERTHCV1", 1 << 30}
)

// suffix is the end of the files' names.
func (of Contents) suffix() string { return "." + of.Name }

// Folder is a folder of files by key. Its methods are safe for concurrent use.
type Folder struct {
	Dir  string
	Of   Contents
	Most int64 // bytes of all files; one file may take more
}

// Default is the folder that Variable names or, without it, the folder of that name in
// the folder berth of the user's cache.
func Default(of Contents) (Folder, error) {
	dir := os.Getenv(Variable)
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return Folder{}, fmt.Errorf("there is no folder for cached files: set %s to one: %w", Variable, err)
		}
		dir = filepath.Join(user, "berth", of.Name)
	}
	return Folder{dir, of, of.Most}, nil
}

// Key is a hash of all that decides a file's contents.
type Key [sha256.Size]byte

// File is an open file of a Folder. Its contents are valid as long as the File, or
// its Mapping, is referenced.
type File struct {
	// Mapping holds the header and the contents.
	Mapping *osfile.Mapping
	// Sum is the SHA-256 of the contents, in hex. It was checked.
	Sum string
}

// Bytes are the contents, aligned for any number. They must not be written.
func (f *File) Bytes() []byte { return f.Mapping.Bytes()[headerBytes:] }

// A file is a header and the contents. The header is the magic, the contents' length
// in bytes as 64 bits, little-endian, and their SHA-256.
const (
	lengthAt    = 8
	sumAt       = lengthAt + 8
	headerBytes = 64
)

// errDamaged is about a file that is made anew.
var errDamaged = errors.New("damaged")

// Open maps the file of a key. Where it is missing or damaged, write writes its
// contents first. It reads the whole file to check it, until ctx is done.
func (c Folder) Open(ctx context.Context, key Key, write func(io.Writer) error) (*File, error) {
	f, err := c.Get(ctx, key)
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errDamaged) {
		return f, err
	}
	if err := c.Put(key, write); err != nil {
		return nil, err
	}
	return c.open(ctx, c.path(key))
}

// Get is Open of a file that is there. The error is fs.ErrNotExist where it is not.
func (c Folder) Get(ctx context.Context, key Key) (*File, error) {
	path := c.path(key)
	f, err := c.open(ctx, path)
	if err == nil {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // a folder that cannot be written is used all the same
	}
	return f, err
}

// Put gives the file of a key the contents that write writes, whether there is one or not.
func (c Folder) Put(key Key, write func(io.Writer) error) error {
	path := c.path(key)
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	if err := osfile.Replace(path, func(f *os.File) error { return c.fill(f, write) }); err != nil {
		return err
	}
	c.prune(path)
	return nil
}

// Has reports whether there is a file of a key. Its contents are not checked.
func (c Folder) Has(key Key) bool {
	st, err := os.Stat(c.path(key))
	return err == nil && st.Mode().IsRegular()
}

// Remove removes the file of a key.
func (c Folder) Remove(key Key) error { return os.Remove(c.path(key)) }

func (c Folder) path(key Key) string {
	return filepath.Join(c.Dir, hex.EncodeToString(key[:])+c.Of.suffix())
}

// fill writes contents and then their header.
func (c Folder) fill(f *os.File, write func(io.Writer) error) error {
	if _, err := f.Seek(headerBytes, io.SeekStart); err != nil {
		return err
	}
	w := &summer{w: bufio.NewWriterSize(f, 1<<20), sum: sha256.New()}
	if err := write(w); err != nil {
		return err
	}
	if err := w.w.Flush(); err != nil {
		return err
	}
	_, err := f.WriteAt(c.Of.header(w.n, w.sum.Sum(nil)), 0)
	return err
}

func (of Contents) header(length int64, sum []byte) []byte {
	b := make([]byte, headerBytes)
	copy(b, of.Magic)
	binary.LittleEndian.PutUint64(b[lengthAt:], uint64(length))
	copy(b[sumAt:], sum)
	return b
}

// summer writes, and counts and hashes what it writes.
type summer struct {
	w   *bufio.Writer
	n   int64
	sum hash.Hash
}

func (s *summer) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	s.sum.Write(p[:n])
	return n, err
}

// open maps a file and checks it.
func (c Folder) open(ctx context.Context, path string) (_ *File, err error) {
	f, err := osfile.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() < headerBytes {
		return nil, errDamaged
	}
	m, err := osfile.Map(f, st.Size())
	if err != nil {
		return nil, err
	}
	out := &File{Mapping: m}
	err = m.Guard(func() error {
		h := sha256.New()
		for part := range slices.Chunk(out.Bytes(), 1<<20) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			h.Write(part)
		}
		sum := h.Sum(nil)
		if !bytes.Equal(m.Bytes()[:headerBytes], c.Of.header(st.Size()-headerBytes, sum)) {
			return errDamaged
		}
		out.Sum = hex.EncodeToString(sum)
		return nil
	})
	if errors.Is(err, osfile.ErrShrunk) {
		err = errDamaged
	}
	return out, err
}

// prune removes the files that killed processes were making, and those that were used
// longest ago, until the rest is within the limit. It leaves keep, and files that cannot
// be removed.
func (c Folder) prune(keep string) {
	type aged struct {
		path string
		size int64
		used time.Time
	}
	osfile.TidyBeside(c.Dir, c.Of.suffix())
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return
	}
	var list []aged
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(e.Name(), c.Of.suffix()) {
			continue
		}
		list = append(list, aged{filepath.Join(c.Dir, e.Name()), info.Size(), info.ModTime()})
		total += info.Size()
	}
	slices.SortFunc(list, func(a, b aged) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	for _, f := range list {
		if total > c.Most && f.path != keep && os.Remove(f.path) == nil {
			total -= f.size
		}
	}
}
