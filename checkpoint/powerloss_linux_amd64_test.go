package checkpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/berth-ml/berth/internal/testall"
)

// TestPowerLoss records what a process that saves, prunes and compacts asks of
// the disk, and rebuilds the files that a loss of power at any moment could
// leave: what was synced, and of the rest any part, sector by sector. In each,
// the newest checkpoint that the process said it had saved is there, whole, or
// the next one, and the file can be opened for writing.
func TestPowerLoss(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	from := t.TempDir()
	ops := record(t, "record", filepath.Join(from, "c.db"), from)
	d := &disk{r: rand.New(rand.NewPCG(seed, 0)), files: map[string]*diskFile{}, more: testall.Or(1, 3), to: t.TempDir(), seen: map[Hash]bool{}}
	said, syncs := 0, 0
	for i, op := range ops {
		if op.kind == opSay {
			if _, err := fmt.Sscanf(op.said, "saved %d", &said); err != nil {
				t.Fatalf("the process said %q", op.said)
			}
		}
		if op.kind == opSync {
			syncs++
		}
		d.do(op)
		for what, files := range d.crashes() {
			if err := d.check(files, said); err != nil {
				t.Fatalf("operation %d of %d, %s, after step %d: %v", i, len(ops), what, said, err)
			}
		}
	}
	if said != recordedSteps || syncs < 2*recordedSteps {
		t.Errorf("%d steps were saved, with %d syncs", said, syncs)
	}
	t.Logf("%d operations, %d different files", len(ops), len(d.seen))
}

// disk is the state of the files as a disk with a cache has it.
type disk struct {
	r     *rand.Rand
	files map[string]*diskFile // by the name that programs see
	names []diskOp             // creations, renames and removals that are not synced
	old   map[string]*diskFile // by the name that is on the disk
	more  int                  // random images at each moment
	to    string               // where images are checked
	seen  map[Hash]bool
}

// diskFile is a file: what is on the disk, and what is not there yet.
type diskFile struct {
	synced  []byte
	pending []diskOp
}

// do takes over an operation.
func (d *disk) do(op diskOp) {
	f := d.files[op.name]
	switch op.kind {
	case opCreate:
		if f == nil {
			d.files[op.name] = &diskFile{}
			d.rename(op)
		}
	case opWrite, opTruncate:
		f.pending = append(f.pending, op)
	case opSync:
		if f == nil { // a folder
			d.old, d.names = cloneNames(d.files), nil
			return
		}
		f.synced, f.pending = apply(f.synced, f.pending, nil), nil
	case opRename:
		d.files[op.name] = d.files[op.old]
		delete(d.files, op.old)
		d.rename(op)
	case opRemove:
		delete(d.files, op.name)
		d.rename(op)
	}
}

// rename notes that names on the disk are not what programs see.
func (d *disk) rename(op diskOp) {
	if d.old == nil {
		d.old = map[string]*diskFile{}
	}
	d.names = append(d.names, op)
}

func cloneNames(m map[string]*diskFile) map[string]*diskFile {
	out := map[string]*diskFile{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// sector is what a disk writes whole or not at all.
const sector = 512

// apply performs operations on a file's contents; where keep is not nil, only
// the sectors of each that it wants.
func apply(b []byte, ops []diskOp, keep func(op, sector int) bool) []byte {
	b = slices.Clone(b)
	grow := func(n int64) {
		if n > int64(len(b)) {
			b = append(b, make([]byte, n-int64(len(b)))...)
		}
	}
	for i, op := range ops {
		if op.kind == opTruncate {
			if keep == nil || keep(i, 0) {
				grow(op.at)
				b = b[:op.at]
			}
			continue
		}
		for off := 0; off < len(op.data); off += sector {
			end := min(off+sector, len(op.data))
			if keep == nil || keep(i, off/sector) {
				grow(op.at + int64(end))
				copy(b[op.at+int64(off):], op.data[off:end])
			}
		}
	}
	return b
}

// crashes are the files that a loss of power now could leave, by what of the
// operations that are not synced reached the disk.
func (d *disk) crashes() map[string]map[string][]byte {
	n := 0
	for _, f := range d.files {
		n = max(n, len(f.pending))
	}
	out := map[string]map[string][]byte{}
	add := func(what string, keep func(op, sector int) bool) {
		out[what+", old names"] = d.image(d.old, keep)
		out[what+", new names"] = d.image(d.files, keep)
	}
	add("nothing", func(int, int) bool { return false })
	add("everything", nil)
	if n == 0 {
		return out
	}
	last := n - 1
	for range min(d.more, n) {
		skip := d.r.IntN(n)
		add(fmt.Sprint("all but ", skip), func(op, _ int) bool { return op != skip })
	}
	add("all but the last", func(op, _ int) bool { return op != last })
	add("the last alone", func(op, _ int) bool { return op == last })
	for i := range d.more {
		cut := d.r.IntN(8)
		add(fmt.Sprint("the last in part ", i), func(op, s int) bool { return op < last || s < cut })
		seed := d.r.Uint64()
		add(fmt.Sprint("sectors at random, ", seed), func(op, s int) bool {
			return rand.New(rand.NewPCG(seed, uint64(op)<<32|uint64(s))).IntN(2) == 0
		})
	}
	return out
}

func (d *disk) image(names map[string]*diskFile, keep func(op, sector int) bool) map[string][]byte {
	out := map[string][]byte{}
	for name, f := range names {
		if !strings.HasSuffix(name, ".pid") {
			out[filepath.Base(name)] = apply(f.synced, f.pending, keep)
		}
	}
	return out
}

// check writes an image and opens it as a run that goes on would.
func (d *disk) check(files map[string][]byte, said int) error {
	h := xxh3.New()
	fmt.Fprint(h, said)
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	}) {
		fmt.Fprintf(h, "%s %d ", name, len(files[name]))
		h.Write(files[name])
	}
	sum := Hash(h.Sum128().Bytes())
	if d.seen[sum] {
		return nil
	}
	d.seen[sum] = true
	if err := os.RemoveAll(d.to); err != nil {
		return err
	}
	if err := os.Mkdir(d.to, 0o755); err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(d.to, name), b, 0o644); err != nil {
			return err
		}
	}
	return opensWith(filepath.Join(d.to, "c.db"), said)
}

// opensWith opens a file for writing, wants the checkpoint of a step in it, or
// of the next, and saves another.
func opensWith(path string, said int) error {
	db, err := Open(path, small)
	if err != nil {
		return err
	}
	defer db.Close()
	s, skipped, err := db.Latest(ctxForever)
	switch {
	case said == 0 && errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case len(skipped) > 1 || len(skipped) == 1 && skipped[0].ID != 0: // one meta page may be torn
		return fmt.Errorf("skipped %v", skipped)
	case s.Manifest.Step != said && s.Manifest.Step != said+1:
		return fmt.Errorf("the newest checkpoint is of step %d", s.Manifest.Step)
	}
	return same(s, s.Manifest.Step)
}
