package residency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/memory"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// fakeDev is a device of bytes with real queues, so that the race detector sees
// every missing wait. Whoever gets memory poisons it first, in the order of its
// queue. Its streams can be held, and its operations made to fail.
type fakeDev struct {
	id        string
	kind      string
	peers     bool
	addresses bool // the host's memory
	mayOut    bool
	capacity  int64         // 0: roomy
	immediate bool          // operations run while they are queued
	lag       time.Duration // before a task reads, and a copy starts

	mu      sync.Mutex
	space   *memory.Space // made at the first Alloc
	data    []byte
	live    int64 // buffers
	peak    int64 // bytes
	allocs  int64
	moved   map[string]int64 // bytes by operation
	fail    map[string]error // by operation: the failure of its next run
	failAll map[string]error // by operation: the failure of all its runs
	failNow map[string]error // by operation: the error of its next call
	skip    map[string]int   // by operation: calls before that one
	hosts   int              // host buffers not freed
	streams []*fakeStream
}

// roomy is the memory of a device without a capacity, in bytes.
const roomy = 1 << 16

func newFake(i int) *fakeDev {
	return &fakeDev{
		id: fmt.Sprintf("fake:%d", i), kind: "fake", peers: true, mayOut: true,
		moved: map[string]int64{}, fail: map[string]error{}, failAll: map[string]error{}, failNow: map[string]error{},
	}
}

func (d *fakeDev) ID() device.ID { return device.ID(d.id) }

func (d *fakeDev) Spec() device.Spec {
	return device.Spec{ID: d.ID(), Kind: d.kind, PeerCopy: d.peers, CopyOut: d.mayOut, HostVisible: d.addresses, MemoryBytes: d.memory()}
}

// memory is the device's memory in bytes.
func (d *fakeDev) memory() int64 {
	if d.capacity == 0 {
		return roomy
	}
	return d.capacity
}

func (d *fakeDev) Supports(*graph.Node) error { return nil }

func (d *fakeDev) Compile(*graph.Graph, device.CompileOptions) (device.Executable, error) {
	return nil, device.ErrUnsupported
}

func (d *fakeDev) Estimate(*graph.Graph, device.CompileOptions) (device.Memory, error) {
	return device.Memory{}, device.ErrUnsupported
}

func (d *fakeDev) Running() (c device.Command, ok bool) { return c, false }

func (d *fakeDev) GiveUp(error) {}

func (d *fakeDev) Stats() device.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.space == nil {
		return device.Stats{}
	}
	return device.Stats{Live: d.space.Used(), Peak: d.peak, Allocs: d.allocs}
}

func (d *fakeDev) answer(op string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.skip[op] > 0 {
		d.skip[op]--
		return nil
	}
	err := d.failNow[op]
	delete(d.failNow, op)
	return err
}

// alloc takes memory for a stream, and the events to wait for before.
func (d *fakeDev) alloc(m shape.Meta, u device.Usage, s *fakeStream) (*fakeBuf, []device.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.space == nil {
		d.space, d.data = memory.New(d.memory(), 1), make([]byte, d.memory())
	}
	block, after, ok := d.space.Take(m.Bytes(), s)
	if !ok {
		return nil, nil, &device.OutOfMemoryError{Device: d.ID(), Meta: m, Usage: u, Needed: m.Bytes(), Used: d.space.Used(), Largest: d.space.Largest(), Budget: int64(len(d.data))}
	}
	d.live++
	d.peak = max(d.peak, d.space.Used())
	d.allocs++
	return &fakeBuf{d: d, meta: m, usage: u, block: block, data: d.data[block.Off : block.Off+block.Size]}, slices.Clone(after), nil
}

func (d *fakeDev) Passed(e device.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.space != nil {
		d.space.Passed(e)
	}
}

func (d *fakeDev) AllocHost(n int64) (device.HostBuffer, error) {
	if err := d.answer("host"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hosts++
	h := &fakeHost{d: d, data: make([]byte, n)}
	for i := range h.data {
		h.data[i] = 0xEE
	}
	return h, nil
}

func (d *fakeDev) NewStream(name string) (device.Stream, error) {
	if err := d.answer("stream"); err != nil {
		return nil, err
	}
	s := &fakeStream{d: d, name: name, ended: make(chan struct{}), broken: map[uint64]fakeOp{}}
	s.cond = sync.NewCond(&s.mu)
	d.mu.Lock()
	d.streams = append(d.streams, s)
	d.mu.Unlock()
	if !d.immediate {
		go s.run()
	}
	return s, nil
}

func (d *fakeDev) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	if d.live != 0 {
		errs = append(errs, fmt.Errorf("%s: %d buffers live", d.id, d.live))
	}
	if d.hosts != 0 {
		errs = append(errs, fmt.Errorf("%s: %d host buffers live", d.id, d.hosts))
	}
	for _, s := range d.streams {
		if !s.closed {
			errs = append(errs, fmt.Errorf("%s: stream %s is open", d.id, s.name))
		}
	}
	return errors.Join(errs...)
}

// stream is the open stream of a name.
func (d *fakeDev) stream(name string) *fakeStream {
	for _, s := range d.streams {
		if s.name == name {
			return s
		}
	}
	panic("no stream " + name)
}

type fakeBuf struct {
	d       *fakeDev
	meta    shape.Meta
	usage   device.Usage
	block   *memory.Block
	data    []byte
	born    device.Event
	deleted bool
}

func (b *fakeBuf) Device() device.ID { return b.d.ID() }

func (b *fakeBuf) Meta() shape.Meta { return b.meta }

func (b *fakeBuf) Usage() device.Usage { return b.usage }

func (b *fakeBuf) Ready() device.Event { return device.Event{} } // residency keeps its own

func (b *fakeBuf) Free(after ...device.Event) error {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	if b.deleted {
		return device.ErrDeleted
	}
	b.deleted = true
	b.d.live--
	if len(after) == 0 {
		after = []device.Event{b.born}
	}
	b.d.space.Give(b.block, after...)
	return nil
}

// check panics if b is queued for work after it was freed.
func (b *fakeBuf) check() {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	if b.deleted {
		panic("test: a freed buffer is queued")
	}
}

type fakeHost struct {
	d    *fakeDev
	data []byte
	mu   sync.Mutex
	gone bool
}

func (h *fakeHost) Bytes() []byte { return h.data }

func (h *fakeHost) Free() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return errors.New("host buffer freed twice")
	}
	h.gone = true
	for i := range h.data {
		h.data[i] = 0xCC
	}
	h.d.mu.Lock()
	h.d.hosts--
	h.d.mu.Unlock()
	return nil
}

// fakeExe runs a function on the bytes.
type fakeExe struct{ f func(in, out [][]byte) error }

func (x *fakeExe) Memory() device.Memory { return device.Memory{} }

func (x *fakeExe) Signature() string { return "" }

func (x *fakeExe) Graph() *graph.Graph { return nil }

func (x *fakeExe) Release() {}

type fakeOp struct {
	name     string
	dst, src *fakeBuf
	host     device.HostBuffer
	event    device.Event
	exe      *fakeExe
	in, out  []device.Buffer
}

type fakeStream struct {
	d      *fakeDev
	name   string
	mu     sync.Mutex
	cond   *sync.Cond
	ops    []fakeOp
	queued uint64
	done   uint64
	failed uint64 // the first operation that failed, 0 if none
	err    error
	held   bool
	broken map[uint64]fakeOp // by number, copies that failed
	gone   bool              // given up
	closed bool
	ended  chan struct{}
}

// giveUp makes everything count as ended, and as failed.
func (s *fakeStream) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.err = true, errBoom
	s.cond.Broadcast()
}

// hold keeps queued work from running until the result is called.
func (s *fakeStream) hold() func() {
	s.mu.Lock()
	s.held = true
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.held = false
		s.cond.Broadcast()
		s.mu.Unlock()
	}
}

// has reports whether an operation with a name is queued.
func (s *fakeStream) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.ops, func(op fakeOp) bool { return op.name == name })
}

func (s *fakeStream) put(op fakeOp) error {
	if err := s.d.answer(op.name); err != nil {
		return err
	}
	for _, b := range []*fakeBuf{op.dst, op.src} {
		if b != nil {
			b.check()
		}
	}
	for _, bs := range [][]device.Buffer{op.in, op.out} {
		for _, b := range bs {
			b.(*fakeBuf).check()
		}
	}
	s.mu.Lock()
	s.queued++
	if s.d.immediate {
		s.mu.Unlock()
		s.finish(&op, s.perform(&op))
		return nil
	}
	defer s.mu.Unlock()
	s.ops = append(s.ops, op)
	s.cond.Broadcast()
	return nil
}

func (s *fakeStream) run() {
	defer close(s.ended)
	for {
		s.mu.Lock()
		for (len(s.ops) == 0 || s.held) && !(s.closed && len(s.ops) == 0) {
			s.cond.Wait()
		}
		if len(s.ops) == 0 {
			s.mu.Unlock()
			return
		}
		op := s.ops[0]
		s.ops = s.ops[1:]
		err := s.err
		s.mu.Unlock()
		runtime.Gosched()
		if err == nil {
			time.Sleep(s.d.lag)
			err = s.perform(&op)
		} else if op.event != (device.Event{}) { // skipped, but in order
			_ = op.event.Wait(context.Background())
		}
		s.finish(&op, err)
	}
}

func (s *fakeStream) perform(op *fakeOp) error {
	s.d.mu.Lock()
	err := s.d.fail[op.name]
	delete(s.d.fail, op.name)
	err = cmp.Or(err, s.d.failAll[op.name])
	s.d.mu.Unlock()
	if err != nil {
		return err
	}
	var n int
	switch op.name {
	case "copyin":
		n = copy(op.dst.data, op.host.Bytes())
	case "copyout":
		n = copy(op.host.Bytes(), op.src.data)
	case "copypeer":
		n = copy(op.dst.data, op.src.data)
	case "wait":
		return op.event.Wait(context.Background())
	case "reuse":
		_ = op.event.Wait(context.Background())
		return nil
	case "poison":
		for i := range op.dst.data {
			op.dst.data[i] = 0xDD
		}
		return nil
	case "launch":
		if op.exe.f == nil {
			return nil
		}
		return op.exe.f(datas(op.in), datas(op.out))
	}
	s.d.mu.Lock()
	s.d.moved[op.name] += int64(n)
	s.d.mu.Unlock()
	return nil
}

func datas(bs []device.Buffer) (out [][]byte) {
	for _, b := range bs {
		out = append(out, b.(*fakeBuf).data)
	}
	return out
}

func (s *fakeStream) finish(op *fakeOp, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	if err != nil && strings.HasPrefix(op.name, "copy") {
		s.broken[s.done] = *op
	}
	if err != nil && s.err == nil {
		s.err, s.failed = err, s.done
	}
	s.cond.Broadcast()
}

func (s *fakeStream) Alloc(m shape.Meta, u device.Usage) (device.Buffer, error) {
	if err := s.d.answer("alloc"); err != nil {
		return nil, err
	}
	b, after, err := s.d.alloc(m, u, s)
	if err != nil {
		return nil, err
	}
	for _, e := range after {
		if err := s.put(fakeOp{name: "reuse", event: e}); err != nil {
			return nil, err
		}
	}
	err = s.put(fakeOp{name: "poison", dst: b})
	b.born = s.Record()
	return b, err
}

func (s *fakeStream) CopyIn(dst device.Buffer, src device.HostBuffer) error {
	if int64(len(src.Bytes())) != dst.Meta().Bytes() {
		return fmt.Errorf("test: copy-in of %d bytes to %v", len(src.Bytes()), dst.Meta())
	}
	if dst.(*fakeBuf).d != s.d {
		return errors.New("test: copy-in to another device")
	}
	return s.put(fakeOp{name: "copyin", dst: dst.(*fakeBuf), host: src})
}

func (s *fakeStream) CopyOut(dst device.HostBuffer, src device.Buffer) (device.Event, error) {
	if !s.d.mayOut {
		return device.Event{}, fmt.Errorf("copy-out: %w", device.ErrUnsupported)
	}
	err := s.put(fakeOp{name: "copyout", src: src.(*fakeBuf), host: dst})
	return s.Record(), err
}

func (s *fakeStream) Repeat(failed device.Event) (device.Event, error) {
	other := failed.Queue.(*fakeStream)
	other.mu.Lock()
	op, ok := other.broken[failed.Seq]
	delete(other.broken, failed.Seq)
	other.mu.Unlock()
	if !ok || other.gone {
		return device.Event{}, errors.New("test: no such failed copy")
	}
	if op.src != nil { // it may be freed
		op.src = &fakeBuf{d: s.d, data: op.src.data}
	}
	if op.dst != nil {
		op.dst = &fakeBuf{d: s.d, data: op.dst.data}
	}
	err := s.put(op)
	return s.Record(), err
}

func (s *fakeStream) CopyPeer(dst, src device.Buffer) error {
	if dst.(*fakeBuf).d != s.d || src.(*fakeBuf).d.kind != s.d.kind {
		return errors.New("test: no such peer copy")
	}
	return s.put(fakeOp{name: "copypeer", dst: dst.(*fakeBuf), src: src.(*fakeBuf)})
}

func (s *fakeStream) Launch(x device.Executable, in, out []device.Buffer, _ device.Buffer) (device.Event, error) {
	err := s.put(fakeOp{name: "launch", exe: x.(*fakeExe), in: in, out: out})
	return s.Record(), err
}

func (s *fakeStream) Record() device.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return device.Event{Queue: s, Seq: s.queued}
}

func (s *fakeStream) WaitFor(e device.Event) error { return s.put(fakeOp{name: "wait", event: e}) }

func (s *fakeStream) WaitForEnd(e device.Event) error {
	return s.put(fakeOp{name: "reuse", event: e})
}

func (s *fakeStream) Cancel(error) { panic("nothing cancels a stream of residency's") }

func (s *fakeStream) Slow(time.Duration) { panic("no drill slows a stream of residency's") }

func (s *fakeStream) Busy() int64 { return 0 }

func (s *fakeStream) Close() error {
	s.mu.Lock()
	s.closed, s.held = true, false
	s.cond.Broadcast()
	s.mu.Unlock()
	if !s.d.immediate {
		<-s.ended
	}
	return nil
}

func (s *fakeStream) Finished(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone || s.done >= seq
}

func (s *fakeStream) Err(seq uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errAt(seq)
}

func (s *fakeStream) errAt(seq uint64) error {
	if s.gone || s.failed > 0 && seq >= s.failed && s.done >= seq {
		return s.err
	}
	return nil
}

func (s *fakeStream) Await(ctx context.Context, seq uint64) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		s.cond.Broadcast()
		s.mu.Unlock()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.gone && s.done < seq {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.cond.Wait()
	}
	return s.errAt(seq)
}

// rig is a manager with one tenant on fake devices, with a compute stream on each.
type rig struct {
	*testing.T
	m       *Tenant
	devs    []*fakeDev
	compute []device.Stream
	rows    []ledger.Row
}

// rigOptions are the options of a rig's manager and of its tenant.
type rigOptions struct {
	manager ManagerOptions
	tenant  TenantOptions
}

// newRig makes n devices, lets the caller change them and opens a manager. At
// the end of the test all must be freed.
func newRig(t *testing.T, n int, o rigOptions, change ...func(i int, d *fakeDev)) *rig {
	t.Helper()
	r := &rig{T: t}
	devs := make([]device.Device, n)
	for i := range devs {
		d := newFake(i)
		for _, f := range change {
			f(i, d)
		}
		r.devs = append(r.devs, d)
		devs[i] = d
	}
	if o.tenant.OnTransfer == nil {
		o.tenant.OnTransfer = func(x ledger.Row) { r.rows = append(r.rows, x) }
	}
	m, err := Open(devs, o.manager, o.tenant)
	if err != nil {
		t.Fatal(err)
	}
	r.m = m
	for i := range m.devs {
		m.devs[i].unit = 1
	}
	for _, d := range r.devs {
		s, err := d.NewStream("compute")
		if err != nil {
			t.Fatal(err)
		}
		r.compute = append(r.compute, s)
	}
	t.Cleanup(func() { r.close() })
	return r
}

func (r *rig) close() {
	for _, s := range r.compute {
		if err := s.Close(); err != nil {
			r.Error(err)
		}
	}
	if err := r.m.Close(); err != nil {
		r.Error(err)
	}
	for _, d := range r.devs {
		if err := d.Close(); err != nil {
			r.Error(err)
		}
	}
}

func (r *rig) declare(name string, bytes int, u device.Usage) *Tensor {
	r.Helper()
	t, err := r.m.Declare(Key{Value: name}, shape.Meta{DType: shape.Uint8, Shape: shape.Of(bytes)}, u)
	if err != nil {
		r.Fatal(err)
	}
	return t
}

func pattern(n int64, b byte) []byte { return []byte(strings.Repeat(string(rune(b&0x7f)), int(n))) }

func (r *rig) fill(t *Tensor, b byte) {
	r.Helper()
	if err := r.m.Fill(t, pattern(t.bytes, b)); err != nil {
		r.Fatal(err)
	}
}

// hostBuffer is a caller's pinned buffer full of b.
func (r *rig) hostBuffer(n int64, b byte) device.HostBuffer {
	h := &fakeHost{d: r.devs[0], data: pattern(n, b)}
	return h
}

// task acquires on device d, launches f and releases.
func (r *rig) task(d int, f func(in [][]byte) error, needs ...Need) error {
	r.Helper()
	var l Lease
	if err := r.m.Acquire(context.Background(), r.compute[d], needs, 0, &l); err != nil {
		return err
	}
	x := &fakeExe{f: func(in, _ [][]byte) error { return f(in) }}
	ev, err := r.compute[d].Launch(x, append([]device.Buffer(nil), l.Buffers...), nil, l.Scratch)
	if err != nil {
		return errors.Join(err, r.m.Abandon(&l))
	}
	return r.m.Release(&l, ev)
}

// write sets t to b on device d.
func (r *rig) write(t *Tensor, d int, b byte) {
	r.Helper()
	err := r.task(d, func(in [][]byte) error { copy(in[0], pattern(t.bytes, b)); return nil }, Need{t, d, Write})
	if err != nil {
		r.Fatal(err)
	}
}

// onHost pulls t back and reads it.
func (r *rig) onHost(ctx context.Context, why ledger.Reason, t *Tensor) ([]byte, error) {
	if err := r.m.PullBack(ctx, why, t); err != nil {
		return nil, err
	}
	return r.m.Host(t)
}

// read checks, when the task runs, that t is b on device d.
func (r *rig) read(t *Tensor, d int, b byte) error {
	r.Helper()
	return r.task(d, func(in [][]byte) error {
		if string(in[0]) != string(pattern(t.bytes, b)) {
			r.Errorf("%s on %s holds %q, not %q", t.Name(), r.devs[d].id, in[0], b)
		}
		return nil
	}, Need{t, d, Read})
}

func (r *rig) mustRead(t *Tensor, d int, b byte) {
	r.Helper()
	if err := r.read(t, d, b); err != nil {
		r.Fatal(err)
	}
}

// kinds lists the ledger's rows since the last call as "copy-in w > fake:0".
func (r *rig) kinds() string {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	var b strings.Builder
	for _, x := range r.rows {
		fmt.Fprintf(&b, "%v %s %s>%s; ", x.Kind, x.Value, x.From, x.To)
	}
	r.rows = nil
	return strings.TrimSuffix(b.String(), "; ")
}

func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func noPeers(_ int, d *fakeDev) { d.peers = false }

// capacity limits the memory of devices, in bytes.
func capacity(bytes ...int64) func(int, *fakeDev) {
	return func(i int, d *fakeDev) {
		if i < len(bytes) {
			d.capacity = bytes[i]
		}
	}
}
