package device

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// The causes of device errors.
var (
	ErrOutOfMemory = errors.New("out of device memory")
	ErrDonated     = errors.New("buffer was donated")
	ErrDeleted     = errors.New("buffer was deleted")
	ErrClosed      = errors.New("device is closed")
	ErrLost        = errors.New("device is lost")
	ErrUnsupported = errors.New("not supported by this device")
	ErrNonFinite   = errors.New("not finite")
	ErrKind        = errors.New("no such kind of device")
	ErrAbsent      = errors.New("there is no such device")
	ErrBudget      = errors.New("memory budget beyond the limit")
	ErrEnvironment = errors.New("environment") // an environment variable has a wrong value
)

// ID names a device: its kind and its number within the kind, "cpu:0". That of another
// process has OpenOptions.Prefix before that.
type ID string

// Usage is the purpose of memory. Peaks and budgets are reported by it.
type Usage uint8

// The usages.
const (
	Weight Usage = iota
	OptState
	Grad
	Activation
	Input
	Scratch
	Cache
	NumUsages int = iota
)

var usageNames = [NumUsages]string{"weight", "opt_state", "grad", "activation", "input", "scratch", "cache"}

// String is the usage's name as reports print it.
func (u Usage) String() string { return usageNames[u] }

// Spec is a device's description of itself. It does not change while the device
// is open.
type Spec struct {
	ID             ID
	Kind           string
	Description    string  // "2 of 16 cores, AVX-512"
	Numerics       string  // the instructions that its results depend on to the bit: "AVX-512"; empty if the kind has one way
	Threads        int     // worker threads; 1 if that means nothing
	Cores          int     // of the host, on which its launches run; 0: it has processors of its own
	OfCores        int     // that the host has for this process; 0 if Cores is
	MemoryBytes    int64   // its budget, in bytes
	FlopsPerSecond float64 // rough, for balancing stages; never a measurement of record
	LinkBytesPerS  float64 // host link
	PeerCopy       bool    // it can copy from another device of its kind without the host
	HostVisible    bool    // a copy costs no link
	CopyOut        bool    // it can give bytes back at all
	LateInputs     bool    // its launches begin before all inputs are there: its streams are Delayers
}

// MemoryUnit is the unit of device memory in bytes: each buffer takes a multiple
// of it, aligned to it.
const MemoryUnit = 64

// Stats is a device's memory at one instant, in bytes. It counts buffers, each
// rounded up to MemoryUnit, from Alloc to Free.
type Stats struct {
	Live, Peak                 int64
	LiveBy                     [NumUsages]int64
	PeakBy                     [NumUsages]int64
	Cached                     int64 // free memory that holds copies of buffers, for speed
	Allocs                     int64 // allocations so far
	Launches                   int64 // executables run so far
	CompileHits, CompileMisses int64
	Executables                int64 // in use, or kept
	WrittenOff                 int64 // bytes of the buffers that there were when the device was given up
}

// Command is a queued operation that runs.
type Command struct {
	Stream string
	What   string // as in Span
	Since  time.Time
}

// Device is one device. All methods are safe for concurrent use.
type Device interface {
	// ID never changes.
	ID() ID
	// Spec never changes while the device is open.
	Spec() Spec
	// Supports tells whether the device can run a node, and if not, why. It
	// does not block.
	Supports(n *graph.Node) error
	// AllocHost reserves host memory from which this device copies fastest, with
	// undefined contents. The caller owns it and must Free it once.
	AllocHost(bytes int64) (HostBuffer, error)
	// Compile plans a segment: order, liveness, one arena. It blocks. Equal
	// signatures share one Executable; each caller must Release it once, or leave
	// that to Close.
	Compile(g *graph.Graph, o CompileOptions) (Executable, error)
	// Estimate is the Memory of the executable that Compile would make. It takes
	// no device memory and counts as no compilation. It blocks. A later Compile
	// of an equal segment does not plan again.
	Estimate(g *graph.Graph, o CompileOptions) (Memory, error)
	// NewStream starts a queue. The caller must Close it.
	NewStream(name string) (Stream, error)
	// Passed tells that the caller has waited for e. Memory whose last uses are
	// passed can be written without waiting, so Alloc prefers it for copies. An
	// event that ended without this call does not count: what Alloc chooses
	// depends on the order of calls alone.
	Passed(e Event)
	// Stats is cheap enough for every step.
	Stats() Stats
	// Running is the operation that has run longest without ending; ok is false
	// if none runs. An operation that waits for an event does not run.
	Running() (c Command, ok bool)
	// GiveUp writes the device off, for operations that do not end. All that is
	// queued counts as ended, with the failure cause, and every later call fails
	// with it. Buffers can still be freed. Memory that an operation uses stays
	// mapped until the operation ends. A second call does nothing.
	GiveUp(cause error)
	// Close stops the device. It fails, naming them, if buffers, host buffers
	// or streams are still open; they are released all the same. It does not wait
	// for the operations of a device that was given up.
	Close() error
}

// Buffer is device memory. A handle may be used from any goroutine; the order
// of what happens to its contents is the order of the streams.
type Buffer interface {
	// Device is the device that it is on.
	Device() ID
	// Meta is the metadata of its contents. A pooled buffer keeps it for life.
	Meta() shape.Meta
	// Usage is the usage for which it was allocated.
	Usage() Usage
	// Ready is the event of the last queued operation that writes it; the zero
	// Event when nothing was queued. An output of a launch can be ready before the
	// launch ends.
	Ready() Event
	// Free gives the memory back at once, for the next Alloc. after is the last
	// uses, one event per stream that used the buffer last; those that these
	// waited for can be left out. A later taker's stream waits for them, and
	// Free queues nothing. Without events, the buffer was not used. A second
	// call fails with ErrDeleted, after donation with ErrDonated; the handle
	// must not be kept, since it can be given out again later.
	Free(after ...Event) error
}

// HostBuffer is host memory that a device can copy from and to. The owner must
// not touch Bytes while a queued copy uses it.
type HostBuffer interface {
	Bytes() []byte
	Free() error
}

// CompileOptions says how Compile treats a graph.
type CompileOptions struct {
	// Alias lists, per output of the graph, the index of the input whose
	// memory it takes over, or -1; nil means none. That input is donated.
	Alias []int
	// CheckFinite makes every node fail with a *NonFiniteError when one of its
	// outputs holds NaN or Inf, and must not: see MustBeFinite. For finding the layer, not for speed.
	CheckFinite bool
	// Stop is asked between passes: compiling ends with its error. Nil means
	// never.
	Stop func() error
	// From, if not nil, is told where a call of Compile that succeeds got the
	// executable.
	From func(Source)
}

// Executable is a compiled segment. It belongs to its device.
type Executable interface {
	// Memory is the memory that a run takes.
	Memory() Memory
	// Signature is equal for equal work.
	Signature() string
	// Graph is the graph that was compiled.
	Graph() *graph.Graph
	// Release ends the use of one call of Compile, which must not launch it any
	// more; what was queued still runs. The device forgets executables that nobody
	// uses, except for those that OpenOptions.Keep lets it keep.
	Release()
}

// Memory is the memory that a run of an executable takes, in bytes.
type Memory struct {
	Arguments int64 // of the inputs
	Outputs   int64
	Aliased   int64 // of the outputs that take over an input's memory
	Temporary int64 // of values inside, and the kernels' working memory
}

// Peak is the memory that is live at once during a run.
func (m Memory) Peak() int64 { return m.Arguments + m.Outputs - m.Aliased + m.Temporary }

// Stream is a queue of work on one device: everything runs in the order in
// which it was queued, and every call returns at once. A call's error is about
// its arguments; what fails later is carried by events. After a failure, the
// rest of the queue is skipped and fails with the same cause, but still in
// order: nothing counts as ended before the events that it was to wait for. One
// goroutine queues at a time.
type Stream interface {
	// Alloc takes memory for work that is queued on this stream from now on, with
	// undefined contents. Other streams may use it after an event that was
	// recorded since. The caller owns the buffer and must Free it once, or donate
	// it. The stream waits for the last uses of the memory before, whether they
	// end well or not. Without room Alloc fails with an *OutOfMemoryError.
	Alloc(m shape.Meta, use Usage) (Buffer, error)
	// CopyIn queues a copy of host bytes to the device. src must hold exactly
	// as many bytes as dst's metadata says.
	CopyIn(dst Buffer, src HostBuffer) error
	// CopyOut queues a copy to the host. Residency alone calls this, and who sends a
	// tensor to another process.
	CopyOut(dst HostBuffer, src Buffer) (Event, error)
	// CopyPeer queues a copy from another device of the same kind. It waits until the
	// last queued write of src has ended, well or not, and fails if src's device was
	// given up.
	CopyPeer(dst, src Buffer) error
	// Repeat queues a copy again that has failed, or was skipped, on another stream of
	// the device, and gives its event. It uses the same buffers, even if they were freed
	// since. The caller makes sure that their memory was not written meanwhile. A write that
	// was queued meanwhile, and waits for the copy, stays the last one (see [Buffer.Ready]).
	// Closing the other stream ends the chance, and so does repeating it.
	Repeat(failed Event) (Event, error)
	// Launch queues an executable. in matches the graph's Inputs, out its
	// Outputs; out[i] is caller-allocated, except that an output which
	// aliases input j must be in[j] itself or nil. Donated inputs must not be
	// used afterwards except through that output. scratch has at least the
	// executable's Temporary bytes, which the launch overwrites; it may be nil if
	// that is 0.
	Launch(x Executable, in, out []Buffer, scratch Buffer) (Event, error)
	// Record is the event of everything queued so far.
	Record() Event
	// WaitFor makes what is queued later wait for e; the host does not wait.
	WaitFor(e Event) error
	// WaitForEnd is WaitFor, and a failure of e does not fail what is queued later.
	WaitForEnd(e Event) error
	// Cancel skips what has not begun, as after a failure with that cause; the operation
	// that runs ends. What is queued later is skipped, too. It returns at once. After a
	// failure it does nothing. Any goroutine may call it.
	Cancel(cause error)
	// Slow has the next operation that is queued take so much longer, for drills. Its
	// device works on it for all of that time, as far as anybody can tell.
	Slow(by time.Duration)
	// Busy is how long the queue has worked so far, waiting for events excluded.
	Busy() int64 // nanoseconds
	// Close waits for the queue to end and frees it. Its error is the first
	// failure, if nothing reported it before.
	Close() error
}

// Delayer is a Stream whose launches can wait for events half-way.
type Delayer interface {
	// DelayRead makes the next Launch wait for e before it first reads b; it runs up
	// to there meanwhile. A failure of e fails the launch before it overwrites
	// anything in place. A launch of which b is no input waits before it begins, as
	// after WaitFor.
	DelayRead(b Buffer, e Event)
	// DelayWrite makes the next Launch wait for e before it first overwrites b
	// in place; it runs up to there meanwhile. A failure of e does not stop it.
	// A launch that does not overwrite b waits before it begins, as after
	// WaitForEnd.
	DelayWrite(b Buffer, e Event)
}

// Runner is a Stream that can run short launches without another goroutine.
type Runner interface {
	// Run is Launch on the caller's goroutine. If ok, the launch has ended, and err is its
	// failure, as of a queued one: it fails the stream. Otherwise nothing has happened:
	// queued work of the stream has not ended, another launch of the device runs, or err says
	// what is wrong with the arguments. Busy does not count the time.
	Run(x Executable, in, out []Buffer, scratch Buffer) (done Event, ok bool, err error)
}

// Compactor is a Stream whose device can move buffers within its memory.
type Compactor interface {
	// Compact makes room for a buffer of that many bytes where free memory is in
	// pieces that are too small: it queues moves of buffers that may move, of few
	// bytes. It reports whether there is room now.
	Compact(bytes int64, m Mover) (bool, error)
}

// Mover is the owner of buffers that a device may move. Its methods must not call
// the device, except for the last.
type Mover interface {
	// Movable reports whether a buffer may move.
	Movable(b Buffer) bool
	// Uses are a buffer's last uses, as for Free: the move waits for them, well or
	// not.
	Uses(b Buffer) []Event
	// Moved tells of the buffer to use from now on, and the event after which other
	// streams may. The old one counts as freed.
	Moved(from, to Buffer, done Event)
}

// Queue is the queue that an Event refers to.
type Queue interface {
	// Finished reports whether operation seq has ended, well or not.
	Finished(seq uint64) bool
	// Err is the failure that operation seq met, nil if it has not ended.
	Err(seq uint64) error
	// Await blocks until operation seq has ended or ctx is done.
	Await(ctx context.Context, seq uint64) error
}

// Event marks a place in a queue. It is a small value: copying and waiting
// allocate nothing. The zero Event has always happened.
type Event struct {
	Queue Queue
	Seq   uint64
}

// Done reports, without blocking, whether what the event marks has ended.
func (e Event) Done() bool { return e.Queue == nil || e.Queue.Finished(e.Seq) }

// Err says why the work before the event failed; nil while it has not ended.
func (e Event) Err() error {
	if e.Queue == nil {
		return nil
	}
	return e.Queue.Err(e.Seq)
}

// Wait blocks until what the event marks has ended, and returns its failure,
// or ctx's error if that came first.
func (e Event) Wait(ctx context.Context) error {
	if e.Queue == nil {
		return nil
	}
	return e.Queue.Await(ctx, e.Seq)
}

// OutOfMemoryError is the failure of Alloc. It is an ErrOutOfMemory.
type OutOfMemoryError struct {
	Device  ID
	Meta    shape.Meta // of the buffer
	Usage   Usage      // of the buffer
	Needed  int64      // bytes of the buffer, rounded up
	Used    int64      // bytes of all buffers
	Largest int64      // bytes of the largest buffer that there is room for
	Budget  int64      // the device's memory in bytes
}

// Error states the sizes.
func (e *OutOfMemoryError) Error() string {
	needed, largest := units.TwoBytes(e.Needed, e.Largest)
	return fmt.Sprintf("%s: %v: the %s buffer %v needs %s; %s of %s are used, and the largest free range has %s: use smaller tensors (in a run, smaller microbatches), more devices or a larger memory budget",
		e.Device, ErrOutOfMemory, e.Usage, e.Meta, needed, units.Bytes(e.Used), units.Bytes(e.Budget), largest)
}

// Unwrap is ErrOutOfMemory.
func (e *OutOfMemoryError) Unwrap() error { return ErrOutOfMemory }

// MustBeFinite reports whether CompileOptions.CheckFinite is about a value: it is of
// floats, and of no branch, whose values may go unused.
func MustBeFinite(v *graph.Value) bool {
	return v.Meta.DType == shape.Float32 && (v.Node == nil || !v.Node.Conditional)
}

// NonFiniteError names the value in which a number stopped being finite.
type NonFiniteError struct {
	Node  *graph.Node
	Value string // name of the value
	Index int    // of its first element that is NaN or Inf
}

// Error names the layer, if the node has one, and its config line.
func (e *NonFiniteError) Error() string {
	text := fmt.Sprintf("%s has a value that is not finite (element %d)", e.Value, e.Index)
	if e.Node == nil || e.Node.Layer == nil {
		return text
	}
	text = fmt.Sprintf("%v: %s", e.Node.Layer, text)
	if pos := e.Node.Layer.Pos.String(); pos != "" {
		text = pos + ": " + text
	}
	return text
}

// Unwrap is ErrNonFinite.
func (e *NonFiniteError) Unwrap() error { return ErrNonFinite }
