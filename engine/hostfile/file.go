package hostfile

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/memory"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/units"
)

// The causes of errors.
var (
	ErrNoRoom   = errors.New("no room for a spill file") // on its disk
	ErrNoFolder = errors.New("no such folder")
)

// CheckFolder refuses a path that leads to no folder. The error does not name it.
func CheckFolder(dir string) error {
	switch st, err := os.Stat(dir); {
	case err != nil:
		return fmt.Errorf("%w: make it, or name another one", ErrNoFolder)
	case !st.IsDir():
		return fmt.Errorf("%w: it is a file, name a folder", ErrNoFolder)
	}
	return nil
}

// leastExtent is the least number of bytes by which a file grows, where its disk has
// them.
const leastExtent = 16 << 20

// File is memory in a file without a name. Its methods are safe for concurrent
// use.
type File struct {
	mu      sync.Mutex
	dir     string
	file    *os.File // nil once it is closed
	bytes   int64    // taken on the disk
	end     int64    // offset behind the last extent
	extents []*extent
	retired []*Buffer // freed, for reuse; the first rested longest
}

// extent is a range of the file that was taken on the disk at once.
type extent struct {
	off   int64
	mem   []byte
	space *memory.Space
	left  int // buffers that were left, and not freed yet
}

// Create makes an empty file in a folder. It grows where more is needed. The caller
// closes it.
func Create(dir string) (*File, error) {
	file, err := nameless(dir)
	if err != nil {
		return nil, fmt.Errorf("spill file in %s: %w", dir, err)
	}
	return &File{dir: dir, file: file}, nil
}

// Resize takes room on the disk until the file has so many bytes. Of what it has
// beyond them, it gives back what nothing uses.
func (f *File) Resize(bytes int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return f.closed()
	}
	if more := bytes - f.bytes; more > 0 {
		return f.growFor(more)
	}
	f.extents = slices.DeleteFunc(f.extents, func(x *extent) bool {
		return x.space.Used() == 0 && x.left == 0 && f.bytes-int64(len(x.mem)) >= bytes && f.giveBack(x)
	})
	return nil
}

// giveBack gives an extent's room back to the disk, if the system can.
func (f *File) giveBack(x *extent) bool {
	n := int64(len(x.mem))
	if giveRoom(f.file, x.off, n) != nil || unmap(x.mem) != nil {
		return false
	}
	f.bytes -= n
	return true
}

// closed is the error of using a file that is closed.
func (f *File) closed() error { return fmt.Errorf("spill file in %s: %w", f.dir, os.ErrClosed) }

// Bytes is the size of the file on the disk.
func (f *File) Bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// Alloc takes memory with undefined contents, in the order of submission: whoever
// writes it waits for after first, the last uses by those who had it before. after is
// valid until the next call. The caller frees the memory once.
func (f *File) Alloc(n int64) (b *Buffer, after []device.Event, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil, nil, f.closed()
	}
	b, after, ok := f.take(n)
	if !ok {
		if err := f.growFor(n); err != nil {
			return nil, nil, err
		}
		if b, after, ok = f.take(n); !ok {
			panic(fmt.Sprintf("BUG: %d bytes do not fit a new extent", n))
		}
	}
	return b, after, nil
}

// take takes memory from the first extent that has it. It needs mu.
func (f *File) take(n int64) (*Buffer, []device.Event, bool) {
	for _, x := range f.extents {
		if b, after, ok := x.space.Take(n, nil); ok {
			h := f.handle()
			*h = Buffer{file: f, extent: x, block: b, data: x.mem[b.Off : b.Off+n : b.Off+b.Size]}
			h.pages = h.data[:b.Size:b.Size]
			return h, after, true
		}
	}
	return nil, nil, false
}

// restingBuffers is the number of freed buffers that rest before they are used
// again, so that a second Free soon after the first is still found out.
const restingBuffers = 64

// handle is a buffer for reuse, or a new one. It needs mu.
func (f *File) handle() *Buffer {
	if len(f.retired) <= restingBuffers {
		return new(Buffer)
	}
	b := f.retired[0]
	f.retired = slices.Delete(f.retired, 0, 1)
	return b
}

// growFor adds an extent for n bytes. It needs mu.
func (f *File) growFor(n int64) error {
	page := int64(os.Getpagesize())
	n = (n + page - 1) / page * page
	if n < leastExtent && f.grow(leastExtent) == nil {
		return nil
	}
	return f.grow(n)
}

// grow adds an extent of n bytes, in whole pages. It needs mu.
func (f *File) grow(n int64) error {
	if err := takeRoom(f.file, f.end, n); err != nil {
		do := "free some space"
		if errors.Is(err, syscall.EFBIG) {
			do = "raise the limit on the size of files (ulimit -f)"
		}
		return osfile.Advise(fmt.Errorf("%w: %s: %w", ErrNoRoom, f.wanted(n), err),
			do+", name another folder (--spill-dir), or allow more memory (--host-memory)")
	}
	mem, err := mapShared(f.file, f.end, int(n))
	if err != nil {
		return fmt.Errorf("spill file in %s: mapping %s: %w", f.dir, units.Bytes(n), err)
	}
	f.extents = append(f.extents, &extent{off: f.end, mem: mem, space: memory.New(n, int64(os.Getpagesize()))})
	f.bytes, f.end = f.bytes+n, f.end+n
	return nil
}

// wanted says how much room is wanted, where, and how much there is.
func (f *File) wanted(n int64) string {
	free, known := freeRoom(f.file)
	if !known {
		return fmt.Sprintf("%s more in %s", units.Bytes(n), f.dir)
	}
	want, have := units.TwoBytes(n, free)
	return fmt.Sprintf("%s more in %s, where %s are free", want, f.dir, have)
}

// Close gives the file's room back. No buffer may be used afterwards. A second
// call does nothing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	var errs []error
	for _, x := range f.extents {
		errs = append(errs, unmap(x.mem))
	}
	errs = append(errs, f.file.Close())
	f.file, f.extents = nil, nil
	return errors.Join(errs...)
}

// Buffer is a part of a file. It is a device.PagedBuffer.
type Buffer struct {
	file   *File
	extent *extent
	block  *memory.Block // nil once others may take it
	pages  []byte        // data in whole pages
	data   []byte        // nil once it is freed
}

// Bytes is the memory. It is valid until Free.
func (b *Buffer) Bytes() []byte { return b.data }

// Evict takes the pages of n bytes from an offset on out of the process's
// resident memory. The contents stay, and come back when they are touched. It may
// be called while the bytes are in use.
func (b *Buffer) Evict(off, n int64) {
	page := int64(os.Getpagesize())
	from, to := off/page*page, min((off+n+page-1)/page*page, int64(len(b.pages)))
	if b.data != nil && from < to {
		evict(b.data[from:to:to])
	}
}

// Leave lets others take the memory for after the events: its last uses. It must be
// freed all the same, once they have ended.
func (b *Buffer) Leave(after ...device.Event) {
	b.file.mu.Lock()
	defer b.file.mu.Unlock()
	if b.block != nil {
		b.extent.space.Give(b.block, after...)
		b.block = nil
		b.extent.left++
	}
}

// Free gives the memory back. A second call fails with device.ErrDeleted.
func (b *Buffer) Free() error {
	b.file.mu.Lock()
	defer b.file.mu.Unlock()
	if b.data == nil {
		return fmt.Errorf("spill file in %s: %w", b.file.dir, device.ErrDeleted)
	}
	if b.file.file != nil && len(b.pages) > 0 {
		evict(b.pages)
	}
	if b.block != nil {
		b.extent.space.Give(b.block)
	} else {
		b.extent.left--
	}
	b.block, b.pages, b.data = nil, nil, nil
	b.file.retired = append(b.file.retired, b)
	return nil
}
