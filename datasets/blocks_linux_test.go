package datasets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/internal/filecache"
)

// opens counts how often f opens the file at path.
func opens(t *testing.T, path string, f func()) (n int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_CLOSE); err != nil {
		t.Fatal(err)
	}
	f()
	events := make([]byte, 1<<16)
	size, err := unix.Read(fd, events)
	if err != nil {
		t.Fatal(err)
	}
	return size / int(unsafe.Sizeof(unix.InotifyEvent{})) / 2 // closed between two, or they would be one event
}

// The files of a table beside memory are read once: they are opened for their format, for their names
// and for their rows. Neither what was read nor the samples stay behind as an open file.
func TestTableIsReadOnce(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(filecache.Variable, cache)
	s := Spec{Source: "csv", Path: write(t, "x.csv", mixedTable(300)), Block: 1 << 12, Division: &Division{Val: 0.2, Latest: "day"}}
	s.CSV.Ignore = []string{"day", "n"}
	s.With = []string{"n"}
	const looks = 3
	like := s
	for _, c := range []struct {
		name string
		open func() error
	}{
		{"training", func() error {
			ds, err := Open(t.Context(), s)
			if err == nil {
				like.Like = &ds.Info
			}
			return err
		}},
		{"evaluation", func() error { _, err := Open(t.Context(), like); return err }},
		{"prediction", func() error { _, err := OpenInputs(t.Context(), s, like.Like, s.Path); return err }},
		{"description", func() error { _, _, err := DescribeTable(t.Context(), s); return err }},
	} {
		if n := opens(t, s.Path, func() {
			if err := c.open(); err != nil {
				t.Fatal(c.name, err)
			}
		}); n != looks {
			t.Errorf("%s: the table is opened %d times, want %d", c.name, n, looks)
		}
	}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, cache) {
			t.Errorf("%s is still open", to)
		}
	}
	if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
		t.Errorf("%v are left behind, %v", left, err)
	}
}
