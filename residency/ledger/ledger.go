package ledger

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/berth-ml/berth/engine/device"
)

// Kind is the kind of an entry: how bytes moved, if they did.
type Kind uint8

// The kinds of entries. A Hit and a Drop move nothing.
const (
	CopyIn Kind = iota
	Peer
	Hit
	PullBack
	Spill
	StreamIn
	Drop
	NumKinds int = iota
)

var kindNames = [NumKinds]string{"copy-in", "peer", "hit", "pull-back", "spill", "stream-in", "drop"}

// String is the kind as reports print it.
func (k Kind) String() string { return kindNames[k] }

// Reason is the reason for which bytes came back to the host. A copy-in of bytes that
// came from another device has the reason Transit, too.
type Reason string

// The reasons. SpillReason and Transit are the manager's own: room is needed,
// and a copy between devices without a peer path.
const (
	Epoch       Reason = "epoch"
	Checkpoint  Reason = "checkpoint"
	Log         Reason = "log"
	Watch       Reason = "watch"
	Fetch       Reason = "fetch"
	SpillReason Reason = "spill"
	Debug       Reason = "debug"
	Transit     Reason = "transit"
)

// reasons indexes the counters; the first is for kinds without a reason.
var reasons = [...]Reason{"", Epoch, Checkpoint, Log, Watch, Fetch, SpillReason, Debug, Transit}

// Reasons lists the reasons for which bytes come back.
func Reasons() []Reason { return slices.Clone(reasons[1:]) }

// Known reports whether r is one of Reasons.
func (r Reason) Known() bool {
	_, ok := reasonIndex(r)
	return ok && r != ""
}

func reasonIndex(r Reason) (int, bool) {
	for i := range reasons {
		if reasons[i] == r {
			return i, true
		}
	}
	return 0, false
}

// Row is one entry of the ledger.
type Row struct {
	Step     int64 // steps closed so far
	Kind     Kind
	Reason   Reason
	Value    string // name of the tensor
	Usage    device.Usage
	From, To string // device ID, "host", "store", or empty
	Bytes    int64
	Cause    string // a mode, "evicted", "stale", "dropped"
	// Event is the copy's end, as device.Span has it; zero if nothing moves.
	Event device.Event
}

// Count is a number of entries and their bytes.
type Count struct{ Count, Bytes int64 }

func (c *Count) add(o Count) {
	c.Count += o.Count
	c.Bytes += o.Bytes
}

// Sum is the Count of entries that agree in all other fields.
type Sum struct {
	Kind   Kind
	Reason Reason
	Usage  device.Usage
	Device string
	Count
}

// Series describes a number of bytes per step.
type Series struct{ Min, Median, Max, Last int64 }

// Steady describes the steps after the first one.
type Steady struct {
	Steps    int64
	CopyIn   Series // copy-in and stream-in
	Peer     Series
	PullBack Series
	Spill    Series
}

// counters are the entries of one device.
type counters [NumKinds][len(reasons)][device.NumUsages]Count

// Ledger counts every byte that moves, by kind, reason, usage and device. Its
// methods are safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	names   []string
	devices []counters
	onRow   func(Row)
	hears   func(Row) // of Hear; nil: nobody
	steps   int64
	now     [numTracks]int64 // bytes of the open step
	past    [numTracks]series
}

// The tracks of a step.
const (
	trackIn = iota
	trackPeer
	trackOut
	trackSpill
	numTracks
)

var tracks = [NumKinds]int{CopyIn: trackIn, StreamIn: trackIn, Peer: trackPeer, PullBack: trackOut, Spill: trackSpill, Hit: -1, Drop: -1}

// series counts how often each number of bytes occurred. Few are distinct.
type series struct {
	times map[int64]int64
	last  int64
}

// New makes a ledger for devices with these IDs. onRow, unless it is nil, is told of
// each entry, in order, and must not call the ledger.
func New(names []string, onRow func(Row)) *Ledger {
	l := &Ledger{names: names, devices: make([]counters, len(names)), onRow: onRow}
	for i := range l.past {
		l.past[i].times = map[int64]int64{}
	}
	return l
}

// Hear has f told of each entry from now on but hits, as onRow of [New] is, whose place f does not take; nil
// ends that.
func (l *Ledger) Hear(f func(Row)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hears = f
}

// Add counts an entry on a device, by index. It sets the row's step.
func (l *Ledger) Add(device int, r Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := reasonIndex(r.Reason)
	if !ok {
		panic("BUG: reason " + string(r.Reason) + " is not in the ledger")
	}
	l.devices[device][r.Kind][i][r.Usage].add(Count{1, r.Bytes})
	if k := tracks[r.Kind]; k >= 0 {
		l.now[k] += r.Bytes
	}
	r.Step = l.steps
	if l.onRow != nil {
		l.onRow(r)
	}
	if l.hears != nil && r.Kind != Hit {
		l.hears(r)
	}
}

// Hits adds the hits of a task, which are counted together so that they cost little: the ledger is
// locked from [Ledger.Hits] to End, unless somebody hears of each row.
type Hits struct{ l *Ledger }

// Hits begins to add hits. The caller ends it.
func (l *Ledger) Hits() Hits {
	if l.onRow == nil {
		l.mu.Lock()
	}
	return Hits{l}
}

// Add adds the hit of a value on a device, by index.
func (h Hits) Add(device int, value string, u device.Usage, bytes int64, cause string) {
	if l := h.l; l.onRow != nil {
		l.Add(device, Row{Kind: Hit, Value: value, Usage: u, From: l.names[device], To: l.names[device], Bytes: bytes, Cause: cause})
	} else {
		l.devices[device][Hit][0][u].add(Count{1, bytes})
	}
}

// End ends the adding.
func (h Hits) End() {
	if h.l.onRow == nil {
		h.l.mu.Unlock()
	}
}

// Step closes a step. The first one, in which weights come in, is not part of
// the steady state.
func (l *Ledger) Step() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.steps > 0 {
		for i, n := range l.now {
			l.past[i].times[n]++
			l.past[i].last = n
		}
	}
	l.steps++
	l.now = [numTracks]int64{}
}

// Boundary takes the bytes moved since the last Step out of the steps' series:
// the pull-backs of a boundary, the batches of an evaluation. Totals keep them.
func (l *Ledger) Boundary() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = [numTracks]int64{}
}

// SteadyState describes the steps after the first.
func (l *Ledger) SteadyState() Steady {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Steady{
		Steps:    max(0, l.steps-1),
		CopyIn:   l.past[trackIn].summary(),
		Peer:     l.past[trackPeer].summary(),
		PullBack: l.past[trackOut].summary(),
		Spill:    l.past[trackSpill].summary(),
	}
}

// summary describes the series. Of an even number of values, the median is the
// lower of the two in the middle.
func (s *series) summary() Series {
	var values []int64
	var n int64
	for v, times := range s.times {
		values = append(values, v)
		n += times
	}
	if n == 0 {
		return Series{}
	}
	slices.Sort(values)
	out := Series{Min: values[0], Max: values[len(values)-1], Last: s.last}
	for i, seen := 0, int64(0); i < len(values); i++ {
		if seen += s.times[values[i]]; 2*seen >= n {
			out.Median = values[i]
			break
		}
	}
	return out
}

// Sums lists all sums that are not zero, by device, kind, reason and usage.
func (l *Ledger) Sums() []Sum {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Sum
	for d := range l.devices {
		for k := range l.devices[d] {
			for r := range l.devices[d][k] {
				for u, c := range l.devices[d][k][r] {
					if c.Count > 0 {
						out = append(out, Sum{Kind(k), reasons[r], device.Usage(u), l.names[d], c})
					}
				}
			}
		}
	}
	return out
}

// Total is the sum of a kind over all devices, reasons and usages.
func (l *Ledger) Total(k Kind) Count {
	return l.total(func(s Sum) bool { return s.Kind == k })
}

// OfUsage is the sum of a kind for one usage, copy-in of weights, without bytes in
// transit from one device to another.
func (l *Ledger) OfUsage(k Kind, u device.Usage) Count {
	return l.total(func(s Sum) bool { return s.Kind == k && s.Usage == u && s.Reason != Transit })
}

// OfReason is the sum of the bytes that left devices for a reason.
func (l *Ledger) OfReason(r Reason) Count {
	return l.total(func(s Sum) bool { return s.Reason == r && (s.Kind == PullBack || s.Kind == Spill) })
}

// total adds up the sums for which pick is true.
func (l *Ledger) total(pick func(Sum) bool) (c Count) {
	for _, s := range l.Sums() {
		if pick(s) {
			c.add(s.Count)
		}
	}
	return c
}

// String is a table of the sums that are not zero.
func (l *Ledger) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-10s %-11s %-11s %8s %14s\n", "device", "kind", "reason", "usage", "count", "bytes")
	for _, s := range l.Sums() {
		r := string(s.Reason)
		if r == "" {
			r = "-"
		}
		fmt.Fprintf(&b, "%-10s %-10v %-11s %-11v %8d %14d\n", s.Device, s.Kind, r, s.Usage, s.Count.Count, s.Bytes)
	}
	return b.String()
}
