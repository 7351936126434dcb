package fault

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// The causes of errors.
var (
	ErrFault    = errors.New("this fault cannot be injected")
	ErrInjected = errors.New("injected fault")
)

// Op is a kind of operation of a device.
type Op string

// The operations. The first five are queued on streams; the others are calls.
const (
	Launch  Op = "launch"
	CopyIn  Op = "copy-in"
	CopyOut Op = "copy-out"
	Peer    Op = "peer"
	Repeat  Op = "repeat" // of a copy that has failed
	Alloc   Op = "alloc"
	Compile Op = "compile"
)

// Kind is the way in which an operation goes wrong.
type Kind string

// The kinds.
const (
	Hang Kind = "hang" // it never ends
	Fail Kind = "fail" // it fails
	Lost Kind = "lost" // it fails, and so does everything after it on the device
	OOM  Kind = "oom"  // it fails as if memory were short
	Slow Kind = "slow" // it takes SlowTime longer
)

// SlowTime is by how much a slow operation is slow.
const SlowTime = 100 * time.Millisecond

var (
	ops   = []Op{Launch, CopyIn, CopyOut, Peer, Repeat, Alloc, Compile}
	kinds = []Kind{Hang, Fail, Lost, OOM, Slow}
)

// Fault is operations of a device that go wrong.
type Fault struct {
	Device device.ID
	Op     Op
	N      int  // it is the Nth operation of its kind, from 1
	Last   int  // and so are those up to this one, where it is more than N
	Onward bool // so is every later one
	Kind   Kind
}

// Parse reads "cpu:1 launch 3 hang"; "3-9" stands for the third to the ninth, "3+" for the third and every later one.
func Parse(text string) (f Fault, err error) {
	words := strings.Fields(text)
	if len(words) != 4 {
		return f, fmt.Errorf("%w: %q: expected a device, an operation, a number and a kind, such as %q", ErrFault, text, "cpu:0 launch 3 hang")
	}
	f = Fault{Device: device.ID(words[0]), Op: Op(words[1]), Kind: Kind(words[3])}
	number, onward := strings.CutSuffix(words[2], "+")
	f.Onward = onward
	first, last, several := strings.Cut(number, "-")
	if several && !onward {
		f.Last, err = strconv.Atoi(last)
	} else {
		first = number
	}
	if err == nil {
		f.N, err = strconv.Atoi(first)
	}
	if err != nil || f.N < 1 || several && f.Last <= f.N {
		return f, fmt.Errorf("%w: %q: %q does not number an operation: give 3 for the third, 3-9 for the third to the ninth, or 3+ for the third and all later ones", ErrFault, text, words[2])
	}
	switch {
	case !slices.Contains(ops, f.Op):
		err = fmt.Errorf("%w: %q: there is no operation %q: give one of %s", ErrFault, text, f.Op, list(ops))
	case !slices.Contains(kinds, f.Kind):
		err = fmt.Errorf("%w: %q: there is no kind of fault %q: give one of %s", ErrFault, text, f.Kind, list(kinds))
	case f.Op == Alloc && (f.Kind == Hang || f.Kind == Slow):
		err = fmt.Errorf("%w: %q: an alloc can neither hang nor be slow: give fail, lost or oom", ErrFault, text)
	case f.Kind == Hang && f.Op == Compile:
		err = fmt.Errorf("%w: %q: a compile cannot hang: give fail, lost, oom or slow", ErrFault, text)
	}
	return f, err
}

func list[T ~string](all []T) string {
	var s []string
	for _, x := range all {
		s = append(s, string(x))
	}
	return strings.Join(s, ", ")
}

// String is the fault as Parse reads it.
func (f Fault) String() string {
	number := strconv.Itoa(f.N)
	switch {
	case f.Onward:
		number += "+"
	case f.Last > f.N:
		number += "-" + strconv.Itoa(f.Last)
	}
	return fmt.Sprintf("%s %s %s %s", f.Device, f.Op, number, f.Kind)
}

// hits reports whether the nth operation of a kind goes wrong.
func (f Fault) hits(op Op, n int) bool {
	return f.Op == op && n >= f.N && (n <= max(f.N, f.Last) || f.Onward)
}

// cause is the failure of the operation, which what names.
func (f Fault) cause(what string) error {
	err := fmt.Errorf("%w (%v)", ErrInjected, f)
	switch f.Kind {
	case Lost:
		err = fmt.Errorf("%w: %w", err, device.ErrLost)
	case OOM:
		err = fmt.Errorf("%w: %w", err, device.ErrOutOfMemory)
	}
	return &device.OpError{Device: f.Device, What: what, Err: err}
}

// Wrap makes the operations of devices go wrong that faults name. The caller
// closes the devices themselves.
func Wrap(devs []device.Device, faults []Fault) ([]device.Device, error) {
	wrapped := slices.Clone(devs)
	for _, f := range faults {
		i := slices.IndexFunc(devs, func(d device.Device) bool { return d.ID() == f.Device })
		if i < 0 {
			var ids []device.ID
			for _, d := range devs {
				ids = append(ids, d.ID())
			}
			return nil, fmt.Errorf("%w: %q: there is no device %s: give one of %s", ErrFault, f.String(), f.Device, list(ids))
		}
		if wrapped[i] == devs[i] {
			c := &counter{}
			wrapped[i] = &Device{Device: devs[i], hook: c.hit, faults: c}
		}
		c := wrapped[i].(*Device).faults
		c.faults = append(c.faults, f)
	}
	return wrapped, nil
}

// Missed says of each fault whose operation did not come how many such operations
// there were.
func Missed(devs []device.Device) (list []string) {
	for _, d := range devs {
		if d, ok := d.(*Device); ok && d.faults != nil {
			list = append(list, d.faults.missed()...)
		}
	}
	return list
}

// counter counts operations by kind, and finds the one that goes wrong.
type counter struct {
	mu     sync.Mutex
	faults []Fault
	seen   map[Op]int
	lost   error // set by a fault of kind Lost; every later operation fails with it
}

// hit counts an operation, and lets it go wrong if its turn has come.
func (c *counter) hit(o Operation) Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		return o.fails(c.lost)
	}
	if c.seen == nil {
		c.seen = map[Op]int{}
	}
	c.seen[o.Op]++
	for _, f := range c.faults {
		switch {
		case !f.hits(o.Op, c.seen[o.Op]):
		case f.Kind == Hang:
			return Outcome{After: NeverEnds()}
		case f.Kind == Slow:
			return Outcome{Delay: SlowTime}
		case f.Kind == Lost:
			c.lost = f.cause(o.What)
			return o.fails(c.lost)
		default:
			return o.fails(f.cause(o.What))
		}
	}
	return Outcome{}
}

// fails lets a queued operation fail when it runs, and a call at once.
func (o Operation) fails(err error) Outcome {
	if o.Op == Alloc || o.Op == Compile {
		return Outcome{Refused: err}
	}
	return Outcome{After: Fails(err)}
}

// missed describes the faults whose turn has not come.
func (c *counter) missed() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.faults {
		n := c.seen[f.Op]
		if n >= f.N {
			continue
		}
		if c.lost != nil {
			list = append(list, fmt.Sprintf("the fault %q did not happen: %s was lost before", f.String(), f.Device))
			continue
		}
		text := fmt.Sprintf("the fault %q did not happen: the last %s on %s was number %d", f.String(), f.Op, f.Device, n)
		if n == 0 {
			text = fmt.Sprintf("the fault %q did not happen: there was no %s on %s", f.String(), f.Op, f.Device)
		}
		list = append(list, text)
	}
	return list
}
