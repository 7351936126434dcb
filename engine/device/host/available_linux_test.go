package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAvailable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mem := write("meminfo", "MemTotal: 100 kB\nMemAvailable:     8 kB\n")
	if n, err := memInfo(mem, "MemAvailable"); n != 8192 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := memInfo(write("short", "MemTotal: 100 kB\n"), "MemAvailable"); err == nil {
		t.Error("no error without MemAvailable")
	}
	write("v2/a/b/memory.max", "max\n")
	write("v2/a/b/memory.current", "10\n")
	write("v2/a/memory.max", "1000\n")
	write("v2/a/memory.current", "400\n")
	if n := groupMemory(write("own2", "0::/a/b\n"), filepath.Join(dir, "v2"), leaves); n != 600 {
		t.Errorf("version 2: %d bytes, expected 600", n)
	}
	write("v2/a/memory.stat", "anon 90\nfile 310\ninactive_file 200\nactive_file 100\n")
	if n := groupMemory(filepath.Join(dir, "own2"), filepath.Join(dir, "v2"), leaves); n != 900 {
		t.Errorf("version 2 with 300 bytes of files cached: %d bytes, expected 900", n)
	}
	write("v2/a/memory.high", "800\n")
	if n := groupMemory(filepath.Join(dir, "own2"), filepath.Join(dir, "v2"), leaves); n != 700 {
		t.Errorf("version 2 with memory.high: %d bytes, expected 700", n)
	}
	if n := groupMemory(filepath.Join(dir, "own2"), filepath.Join(dir, "v2"), limits); n != 800 {
		t.Errorf("version 2 with memory.high: limits of %d bytes, expected 800", n)
	}
	write("v1/memory/memory.limit_in_bytes", "500\n")
	write("v1/memory/memory.usage_in_bytes", "600\n")
	if n := groupMemory(write("own1", "4:memory:/not/there\n2:cpu:/\n"), filepath.Join(dir, "v1"), leaves); n != 0 {
		t.Errorf("version 1: %d bytes, expected 0", n)
	}
	write("v1/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 250\ntotal_active_file 50\n")
	if n := groupMemory(filepath.Join(dir, "own1"), filepath.Join(dir, "v1"), leaves); n != 200 {
		t.Errorf("version 1 with 300 bytes of files cached: %d bytes, expected 200", n)
	}
	if n := groupMemory(write("both1", "4:hugetlb,memory:/\n"), filepath.Join(dir, "v1"), leaves); n != 200 {
		t.Errorf("version 1 with two controllers in a hierarchy: %d bytes, expected 200", n)
	}
}
