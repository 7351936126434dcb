package cl

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/internal/filecache"
	"github.com/berth-ml/berth/internal/testall"
)

// A unit is compiled once, and again where its file is damaged, another's, or refused by
// the driver. Without room for files it is compiled each time.
func TestExecutables(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(filecache.Variable, dir)
	c, driver := openCaching(t)
	u := newUnit([]*gen.Call{{Name: "kept", Source: "KERNEL void kept(GLOBAL f32* x) { x[0] = 1.0f; }\n"}})
	compiles := func() int64 {
		executables.forget()
		before := driver.calls[createProgramWithSource].Load()
		promised := c.find(u)
		program, from, err := c.program(u)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.caller().call(releaseProgram, program); err != nil {
			t.Error(err)
		}
		compiled := driver.calls[createProgramWithSource].Load() - before
		if (compiled == 0) != (from == device.OnDisk) || promised == device.Anew && from != promised {
			t.Errorf("%d compilations, from %d, and %d was promised", compiled, from, promised)
		}
		if again := c.find(u); executables.get(c.keyOf(u)) != nil && again != device.InMemory {
			t.Errorf("the binary that the process has is looked for in %d", again)
		}
		return compiled
	}
	if n := compiles(); n != 1 {
		t.Fatalf("%d compilations at first", n)
	}
	if n := compiles(); n != 0 {
		t.Fatalf("%d compilations with a file", n)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.kernels"))
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	key := c.keyOf(u)
	folder, _ := filecache.Default(filecache.Kernels)
	write := func(contents []byte) {
		if err := folder.Remove(key); err != nil {
			t.Fatal(err)
		}
		if _, err := folder.Open(t.Context(), key, func(w io.Writer) error { _, err := w.Write(contents); return err }); err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(){
		"damaged": func() {
			_ = os.WriteFile(files[0], append(slices.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1), 0o600)
		},
		"cut":     func() { _ = os.WriteFile(files[0], whole[:100], 0o600) },
		"foreign": func() { write(append(make([]byte, len(key)), "other"...)) },
		"refused": func() { write(append(key[:], "no binary of this driver"...)) },
	} {
		if !testall.Wanted() && (name == "cut" || name == "foreign") {
			continue
		}
		if spoil(); compiles() != 1 || compiles() != 0 {
			t.Errorf("%s: the file was not made anew, once", name)
		}
	}
	t.Setenv(filecache.Variable, files[0]) // which is no folder
	for range 2 {
		if n := compiles(); n != 1 {
			t.Errorf("%d compilations without a folder", n)
		}
	}
}

// A device that is opened later finds kernels in the process's memory, or else on the disk,
// as Find has promised.
func TestFind(t *testing.T) {
	t.Setenv(filecache.Variable, t.TempDir())
	g := negate(t)
	compiled := func() device.Source {
		d, _ := openFaulty(t, device.OpenOptions{}, func(f *found) { f.platform = "a driver" })
		defer func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}()
		var from device.Source
		list := []device.Segment{{Graph: g, Options: device.CompileOptions{From: func(s device.Source) { from = s }}}}
		promised, err := device.Find(d, append(list, list...))
		if err != nil || promised[1] != device.InMemory {
			t.Fatalf("promised %v, %v", promised, err)
		}
		x, err := d.Compile(g, list[0].Options)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Release()
		if from != promised[0] {
			t.Errorf("from %d, and %d was promised", from, promised[0])
		}
		return from
	}
	executables.forget()
	defer executables.forget()
	first, second := compiled(), compiled()
	executables.forget()
	if third := compiled(); first != device.Anew || second != device.InMemory || third != device.OnDisk {
		t.Errorf("from %d, %d and %d, expected anew, memory and disk", first, second, third)
	}
}

// openCaching opens a device whose driver keeps nothing itself, as far as is known.
func openCaching(t *testing.T) (*context, *faulty) {
	t.Helper()
	list, err := usable()
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	of := list[0]
	driver := &faulty{driver: of.driver}
	of.driver, of.platform = driver, "a driver"
	c, err := openContext(of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		executables.forget()
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c, driver
}

// The binaries used longest ago are dropped, and any number of goroutines share them.
func TestMemoryCache(t *testing.T) {
	m := memoryCache{most: 10}
	for k := range byte(3) {
		m.put(filecache.Key{k}, make([]byte, 4))
		m.get(filecache.Key{0})
	}
	if m.get(filecache.Key{0}) == nil || m.get(filecache.Key{1}) != nil || m.get(filecache.Key{2}) == nil || m.bytes != 8 {
		t.Errorf("%v are kept", m.list)
	}
	m.put(filecache.Key{2}, make([]byte, 3))
	if len(m.get(filecache.Key{2})) != 3 || len(m.list) != 2 || m.bytes != 7 {
		t.Errorf("a binary that replaces another leaves %v", m.list)
	}
	m.put(filecache.Key{9}, make([]byte, 11))
	if len(m.list) != 0 || m.bytes != 0 {
		t.Errorf("a binary beyond the limit leaves %v", m.list)
	}
	var all sync.WaitGroup
	for k := range byte(4) {
		all.Go(func() {
			m.put(filecache.Key{k}, make([]byte, 2))
			m.get(filecache.Key{k})
		})
	}
	all.Wait()
}

// forget drops all binaries.
func (m *memoryCache) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list, m.bytes = nil, 0
}
