//go:build unix

package hostfile

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/osfile"
)

// TestContents allocates, evicts and frees buffers at random: each keeps its
// contents, and no two overlap.
func TestContents(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	f, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	live := map[*Buffer]byte{}
	check := func(b *Buffer, v byte) {
		if got := b.Bytes(); bytes.Count(got, []byte{v}) != len(got) {
			t.Fatalf("%d bytes do not hold %d any more", len(got), v)
		}
	}
	for i := range 300 {
		b, _, err := f.Alloc(r.Int64N(1 << 20))
		if err != nil {
			t.Fatal(err)
		}
		v := byte(i)
		for j := range b.Bytes() {
			b.Bytes()[j] = v
		}
		live[b] = v
		for b, v := range live {
			switch r.IntN(4) {
			case 0:
				b.Evict(r.Int64N(int64(len(b.Bytes())+1)), 1<<20)
			case 1:
				check(b, v)
				if err := b.Free(); err != nil {
					t.Fatal(err)
				}
				if err := b.Free(); !errors.Is(err, device.ErrDeleted) {
					t.Errorf("freed twice: %v", err)
				}
				delete(live, b)
			}
		}
	}
	for b, v := range live {
		check(b, v)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if _, _, err := f.Alloc(1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("from a closed file: %v", err)
	}
}

// TestReuse frees and takes the same bytes: the file does not grow.
func TestReuse(t *testing.T) {
	f, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Resize(1 << 20); err != nil {
		t.Fatal(err)
	}
	size := f.Bytes()
	for range 100 {
		b, _, err := f.Alloc(9 << 20)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Free(); err != nil {
			t.Fatal(err)
		}
	}
	if now := f.Bytes(); now != size {
		t.Errorf("the file grew from %d to %d bytes", size, now)
	}
}

// TestResize takes room, and gives back what nothing uses.
func TestResize(t *testing.T) {
	f, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	resize := func(bytes, want int64) {
		t.Helper()
		if err := f.Resize(bytes); err != nil || f.Bytes() != want {
			t.Errorf("asked for %d bytes, it has %d: %v", bytes, f.Bytes(), err)
		}
	}
	resize(20<<20, 20<<20)
	resize(18<<20, 20<<20)
	resize(40<<20, 40<<20)
	b, _, err := f.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	b.Bytes()[5] = 7
	if runtime.GOOS != "linux" { // others give nothing back
		return
	}
	resize(0, 20<<20)
	if err := b.Free(); err != nil {
		t.Error(err)
	}
	resize(0, 0)
	var st unix.Stat_t
	if err := unix.Fstat(int(f.file.Fd()), &st); err != nil || st.Blocks > 64 {
		t.Errorf("the empty file has %d blocks, %v", st.Blocks, err)
	}
	if b, _, err = f.Alloc(1 << 20); err != nil || b.Bytes()[5] != 0 {
		t.Errorf("after growing again: %v", err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Resize(1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
}

// TestNoName: the folder is empty while the file is there.
func TestNoName(t *testing.T) {
	dir := t.TempDir()
	for _, create := range []func(string) (*os.File, error){nameless, createAndRemove} {
		f, err := create(dir)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v in the folder, %v", left, err)
		}
		f.Close()
	}
}

// TestEvicted: evicted pages do not count as resident.
func TestEvicted(t *testing.T) {
	f, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, _, err := f.Alloc(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	copy(b.Bytes(), bytes.Repeat([]byte{1}, len(b.Bytes())))
	b.Evict(0, 8<<20)
	if b.Bytes()[5<<20] != 1 {
		t.Error("evicting lost the contents")
	}
}

// TestFull: a disk without room is an error with its name, and the file works on.
func TestFull(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	f, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 24 << 20, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	_, _, failure := f.Alloc(40 << 20)
	small, _, err := f.Alloc(1 << 20)
	_, _, rest := f.Alloc(15 << 20)  // of the first extent
	_, _, tight := f.Alloc(2 << 20)  // where a whole extent more has no room
	_, _, beyond := f.Alloc(7 << 20) // of 6 MiB that are left
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(failure, ErrNoRoom) || !errors.Is(failure, syscall.EFBIG) {
		t.Errorf("beyond the limit: %v", failure)
	}
	if rest != nil || tight != nil {
		t.Errorf("up to the limit: %v, %v", rest, tight)
	}
	if text := fmt.Sprint(beyond); !osfile.Advised(beyond) || !strings.Contains(text, "7.0 MiB more in ") || runtime.GOOS == "linux" && !strings.Contains(text, "iB are free: ") {
		t.Errorf("it says %s", text)
	}
	if err != nil || len(small.Bytes()) != 1<<20 {
		t.Errorf("within the limit: %v", err)
	}
	if _, err := Create("/nonexistent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}
