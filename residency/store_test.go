package residency

import (
	"bytes"
	"context"
	"errors"
	"io"
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
	if d, err := r.onHost(short(t), ledger.Fetch, ts[1]); err != nil || d[0] != 'b' {
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

// sequenced gives tensors of 8 bytes their contents from a tape.
func sequenced(t *testing.T, r *rig, s *tape, names ...string) map[string]*Tensor {
	t.Helper()
	ts := map[string]*Tensor{}
	for _, n := range names {
		ts[n] = r.declare(n, 8, device.Weight)
	}
	if err := r.m.FromSequence(s, ts); err != nil {
		t.Fatal(err)
	}
	return ts
}

// TestSequence reads a store that only goes forward. What is passed on the way is
// kept, as far as there is room for it.
func TestSequence(t *testing.T) {
	r := newRig(t, 1, rigOptions{manager: ManagerOptions{StagingBytes: 32}}, capacity(64))
	s := newTape("a", "x", "b", "c", "d", "e")
	ts := sequenced(t, r, s, "a", "b", "c", "d", "e")
	r.mustRead(ts["d"], 0, 'd')
	if got := s.read.String(); got != "abd" {
		t.Errorf("read %q on the way to d: a and b are kept, x is nobody's, for c there is no room", got)
	}
	for _, n := range []string{"a", "b"} {
		r.mustRead(ts[n], 0, n[0])
	}
	r.m.Settle()
	if got := s.read.String(); got != "abd" {
		t.Errorf("read %q, and a and b were kept", got)
	}
	r.mustRead(ts["c"], 0, 'c')
	if got := s.read.String(); got != "abdec" || s.rewinds != 1 {
		t.Errorf("read %q with %d rewinds, want e on the way to the end, and c from the front", got, s.rewinds)
	}
	if c := r.m.Ledger().Total(ledger.CopyIn); c.Count != 0 {
		t.Errorf("%v counted as copy-in", c)
	}
	if got := ts["a"].Location(); got != "store, clean on fake:0" {
		t.Errorf("a is at %s", got)
	}
	conserved(t, r)
}

// A device without room for all reads them again, pass after pass, in few passes
// over the sequence, and the host has few of them at a time.
func TestSequenceAgain(t *testing.T) {
	r := newRig(t, 1, rigOptions{manager: ManagerOptions{StagingBytes: 32}}, capacity(16))
	names := []string{"a", "b", "c", "d", "e", "f"}
	s := newTape("f", "a", "c", "b", "d", "e") // nearly in the order of use
	ts := sequenced(t, r, s, names...)
	const passes = 5
	for range passes {
		for _, n := range names {
			r.mustRead(ts[n], 0, n[0])
			r.m.Settle()
			if hosts(r.devs[0]) > 4 {
				t.Fatalf("%d tensors are on the host", hosts(r.devs[0]))
			}
		}
	}
	if s.rewinds > 2*passes || s.read.Len() > 7*passes {
		t.Errorf("%d passes rewound %d times and read %q", passes, s.rewinds, s.read.String())
	}
	r.write(ts["b"], 0, 'z')
	r.mustRead(ts["e"], 0, 'e')
	r.mustRead(ts["f"], 0, 'f')
	r.mustRead(ts["b"], 0, 'z')
	conserved(t, r)
}

func TestSequenceFails(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	s := newTape("a", "b", "c")
	s.sizes["c"] = 9
	ts := sequenced(t, r, s, "a", "b", "c", "d")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.m.PullBack(ended, ledger.Fetch, ts["a"]); !errors.Is(err, context.Canceled) || s.read.Len() > 0 {
		t.Errorf("after the context's end: %v, read %q", err, s.read.String())
	}
	if err := r.read(ts["c"], 0, 'c'); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "c has 9 bytes") {
		t.Errorf("wrong size: %v", err)
	}
	delete(s.sizes, "c")
	if err := r.read(ts["d"], 0, 'd'); !errors.Is(err, ErrUndefined) || !strings.Contains(err.Error(), "stream-in of d") {
		t.Errorf("not on the tape: %v", err)
	}
	s.err = errors.New("torn")
	if err := r.m.Drop(ts["b"]); err != nil {
		t.Fatal(err)
	}
	if err := r.m.FromSequence(s, map[string]*Tensor{"b": ts["b"]}); err != nil {
		t.Fatal(err)
	}
	if err := r.read(ts["b"], 0, 'b'); !errors.Is(err, s.err) || !strings.Contains(err.Error(), "b") {
		t.Errorf("failing tape: %v", err)
	}
	s.err = nil
	r.mustRead(ts["b"], 0, 'b')
	conserved(t, r)
}

// Where the order of uses is known, what is needed next is kept: also a sequence that
// is used from its end to its front is passed few times.
func TestSequenceBackwards(t *testing.T) {
	r := newRig(t, 1, rigOptions{manager: ManagerOptions{StagingBytes: 64}}, capacity(16))
	names := []string{"h", "g", "f", "e", "d", "c", "b", "a"}
	s := newTape("a", "b", "c", "d", "e", "f", "g", "h")
	ts := sequenced(t, r, s, names...)
	var order []Launch
	for _, n := range names {
		order = append(order, reads(ts[n])...)
	}
	r.m.SetUses(r.m.NewUses(order))
	const passes = 5
	for range passes {
		for _, n := range names {
			r.mustRead(ts[n], 0, n[0])
			r.m.Settle()
		}
	}
	if s.rewinds > passes {
		t.Errorf("%d passes rewound %d times and read %q", passes, s.rewinds, s.read.String())
	}
	conserved(t, r)
}

// tape is a Sequence of patterns of 8 bytes, one tensor a name.
type tape struct {
	names   []string
	sizes   map[string]int64 // other than 8
	at      int
	read    bytes.Buffer
	rewinds int
	err     error
	hold    chan struct{} // Next waits until it is closed; nil: it does not wait
}

func newTape(names ...string) *tape { return &tape{names: names, sizes: map[string]int64{}} }

func (s *tape) Next(context.Context) (string, int64, error) {
	if s.hold != nil {
		<-s.hold
	}
	if s.at == len(s.names) {
		return "", 0, io.EOF
	}
	s.at++
	name := s.names[s.at-1]
	return name, max(8, s.sizes[name]), nil
}

func (s *tape) Read(dst []byte) error {
	if s.err != nil {
		return s.err
	}
	s.read.WriteString(s.names[s.at-1])
	copy(dst, pattern(int64(len(dst)), s.names[s.at-1][0]))
	return nil
}

func (s *tape) Rewind() error {
	s.at = 0
	s.rewinds++
	return nil
}

// Waiting for another reader of a sequence ends with its context.
func TestWaitingForASequenceEnds(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	s := newTape("a", "b")
	s.hold = make(chan struct{})
	ts := sequenced(t, r, s, "a", "b")
	reading := make(chan error, 1)
	go func() { reading <- r.m.Prefetch(context.Background(), []Need{{ts["a"], 0, Read}}) }()
	for q := ts["a"].src.seq; len(q.turn) > 0; { // until it reads
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	waiting := make(chan error, 1)
	go func() { waiting <- r.m.Prefetch(ctx, []Need{{ts["b"], 0, Read}}) }()
	select {
	case err := <-waiting:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-short(t).Done():
		t.Error("it does not end")
	}
	close(s.hold)
	if err := <-reading; err != nil {
		t.Error(err)
	}
	r.mustRead(ts["b"], 0, 'b')
}
