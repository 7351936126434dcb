//go:build linux || darwin

package hostmem

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hostfile"
)

// Copies are queued long before they run. A block of the file that is dropped meanwhile
// is given out again at once, to be used after them: the file takes no more room.
func TestTheFileIsReusedInOrder(t *testing.T) {
	f, err := hostfile.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const bytes = 9 << 20
	d, x := new(host), New(Options{Bound: 1, File: f})
	q := new(queue)
	var last device.Event
	for i := range uint64(8) {
		h, err := x.AllocOut(d, bytes, "w")
		if err != nil {
			t.Fatal(err)
		}
		if i > 1 && !h.Uses().Covers(last) {
			t.Fatalf("block %d: %v may be overwritten before its copy", i, h.Uses())
		}
		last = device.Event{Queue: q, Seq: i + 1}
		h.AddUse(last)
		x.Drop(h)
	}
	if u := x.Usage(); u.InFile != bytes || u.Spilled > 32<<20 {
		t.Errorf("one block at a time took %d bytes of %d", u.InFile, u.Spilled)
	}
	if err := f.Resize(0); err != nil || f.Bytes() == 0 {
		t.Errorf("%v; %d bytes of the file are left, and copies use more", err, f.Bytes())
	}
	q.end(nil)
	x.Sweep()
	if err := f.Resize(0); err != nil || f.Bytes() != 0 {
		t.Errorf("%v; %d bytes of the file are left", err, f.Bytes())
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
