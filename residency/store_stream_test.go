package residency

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

func TestStore(t *testing.T) {
	reads := 0
	onRead := func(device int, began, ended time.Time) {
		if device != 0 || ended.Before(began) {
			t.Errorf("read for device %d from %v to %v", device, began, ended)
		}
		reads++
	}
	r := newRig(t, 2, rigOptions{manager: ManagerOptions{StagingBytes: 8}, tenant: TenantOptions{OnRead: onRead}}, capacity(16))
	s := &shelf{reads: map[string]int{}}
	var ts []*Tensor
	for _, n := range []string{"a", "b", "c"} {
		x := r.declare(n, 8, device.Weight)
		if err := r.m.FromStore(x, s, n); err != nil {
			t.Fatal(err)
		}
		ts = append(ts, x)
	}
	nop := func([][]byte) error { return nil }
	if err := r.task(0, nop, Need{ts[0], 0, Read}, Need{ts[1], 0, Read}); err != nil {
		t.Fatal(err)
	}
	r.mustRead(ts[2], 0, 'c')
	r.mustRead(ts[2], 1, 'c')
	r.mustRead(ts[0], 0, 'a')
	want := "stream-in a store>fake:0; stream-in b store>fake:0; drop a fake:0>; stream-in c store>fake:0; " +
		"peer c fake:0>fake:1; drop b fake:0>; stream-in a store>fake:0"
	if got := r.kinds(); got != want {
		t.Errorf("moved %q, want %q", got, want)
	}
	if reads != 4 {
		t.Errorf("told of %d reads", reads)
	}
	if got := ts[0].Location(); got != "store, clean on fake:0" {
		t.Errorf("a is at %s", got)
	}
	if d, err := r.m.EnsureHost(short(t), ledger.Fetch, ts[1]); err != nil || d[0] != 'b' {
		t.Errorf("pulled from the store: %v, %v", d, err)
	}
	r.write(ts[1], 0, 'z')
	r.mustRead(ts[1], 0, 'z')
	s.err = errors.New("disk on fire")
	if err := r.m.Drop(ts[0]); err != nil {
		t.Fatal(err)
	}
	if err := r.m.FromStore(ts[0], s, "a"); err != nil {
		t.Fatal(err)
	}
	if err := r.read(ts[0], 0, 'a'); !errors.Is(err, s.err) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("failing store: %v", err)
	}
	s.err = nil
	r.mustRead(ts[0], 0, 'a')
	conserved(t, r)
}

// TestStagingBound: no more is read from a store than may be on its way.
func TestStagingBound(t *testing.T) {
	r := newRig(t, 1, rigOptions{manager: ManagerOptions{StagingBytes: 12}})
	s := &shelf{reads: map[string]int{}}
	a, b := r.declare("a", 8, device.Weight), r.declare("b", 8, device.Weight)
	for _, x := range []*Tensor{a, b} {
		if err := r.m.FromStore(x, s, x.Name()); err != nil {
			t.Fatal(err)
		}
	}
	in := r.devs[0].stream("copy-in")
	free := in.hold()
	ctx, cancel := context.WithCancel(short(t))
	defer cancel()
	call := r.acquire(ctx, r.compute[0], Need{a, 0, Read}, Need{b, 0, Read})
	for !in.has("copyin") { // until the first one is on its way
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // for one that does not wait
	cancel()
	if err := <-call.err; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if s.reads["a"] != 1 || s.reads["b"] != 0 || hosts(r.devs[0]) != 1 {
		t.Errorf("reads are %v, host buffers %d", s.reads, hosts(r.devs[0]))
	}
	free()
	r.mustRead(b, 0, 'b')
	r.mustRead(a, 0, 'a')
	if s.reads["a"] != 1 {
		t.Errorf("a was read %d times", s.reads["a"])
	}
}

// shelf is a Store of patterns; it counts its reads.
type shelf struct {
	reads map[string]int
	err   error
}

func (s *shelf) Read(name string, dst []byte) error {
	s.reads[name]++
	if s.err != nil {
		return s.err
	}
	copy(dst, pattern(int64(len(dst)), name[0]))
	return nil
}
