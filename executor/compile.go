package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/panics"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Compiled counts executables, by where Compile got them, and the time that this took.
// Each segment asks for one for each device and size of batch that it runs with; op by
// op, each op does.
type Compiled struct {
	Memory int // the device had an equal one
	Disk   int // from the user's cache
	Anew   int
	Time   time.Duration
}

// Add counts executables from a source.
func (c *Compiled) Add(from device.Source) {
	switch from {
	case device.InMemory:
		c.Memory++
	case device.OnDisk:
		c.Disk++
	case device.Anew:
		c.Anew++
	}
}

// compiler compiles for the runtime that owns it, and counts. Its methods are safe for concurrent use.
type compiler struct {
	mu    sync.Mutex
	count Compiled
}

// compiled counts the executables so far.
func (c *compiler) compiled() Compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// compile compiles a segment for a device.
func (c *compiler) compile(d device.Device, s device.Segment) (device.Executable, error) {
	var from device.Source
	s.Options.From = func(of device.Source) { from = of }
	began := time.Now()
	x, err := d.Compile(s.Graph, s.Options)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.Time += time.Since(began)
	if err == nil {
		c.count.Add(from)
	}
	return x, err
}

// compiled is a segment's variant on a device: the key by which a program finds its executable.
type compiled struct {
	*partition.Variant
	device int // index in Runtime.Devices
}

// beside compiles the segments of a program while its steps run op by op. Its goroutine
// begins with the first step, and ends with the last segment or with end.
type beside struct {
	wanted []wanted      // in the order of a step
	over   chan struct{} // closed once the goroutine has ended; nil before it begins
	cancel atomic.Bool
	fresh  atomic.Bool // ready has executables

	mu      sync.Mutex
	ready   map[compiled]device.Executable // that the steps do not use yet
	refused []error                        // of segments that stay op by op
}

// wanted is a segment's variant to compile for a device while steps run op by op. The program's beside
// owns the list.
type wanted struct {
	compiled
	on      device.Device
	segment device.Segment
}

// errBesideOver ends a compilation that nobody waits for any more.
var errBesideOver = errors.New("the program was closed while kernels were being compiled")

// stopped is errBesideOver after end.
func (b *beside) stopped() error {
	if b.cancel.Load() {
		return errBesideOver
	}
	return nil
}

// add adds a variant, before the goroutine begins.
func (b *beside) add(w wanted) {
	w.segment.Options.Stop = b.stopped
	b.wanted = append(b.wanted, w)
}

// begin starts the goroutine.
func (b *beside) begin(c *compiler) {
	b.over = make(chan struct{})
	go func() {
		defer close(b.over)
		for _, w := range b.wanted {
			if b.stopped() != nil {
				return
			}
			b.compile(c, w)
		}
	}()
}

// compile compiles one variant. A panic of an op that the program brings refuses it.
func (b *beside) compile(c *compiler, w wanted) {
	var x device.Executable
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("compiling %s on %s panicked: %s", w.segment.Graph.Name, w.on.ID(), panics.Text(p))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if err == nil {
			b.ready[w.compiled] = x
			b.fresh.Store(true)
		} else if b.stopped() == nil && !errors.Is(err, device.ErrLost) { // steps tell of a loss
			b.refused = append(b.refused, err)
		}
	}()
	x, err = c.compile(w.on, w.segment)
}

// take takes the executables that are ready.
func (b *beside) take() map[compiled]device.Executable {
	b.mu.Lock()
	defer b.mu.Unlock()
	ready := b.ready
	b.ready = map[compiled]device.Executable{}
	b.fresh.Store(false)
	return ready
}

// end ends the goroutine, and releases what nobody took.
func (b *beside) end() {
	if b == nil {
		return
	}
	b.cancel.Store(true)
	if b.over != nil {
		<-b.over
	}
	for _, x := range b.take() {
		x.Release()
	}
}

// takeRefused takes the failures once the goroutine has ended; nil before.
func (b *beside) takeRefused() (list []error) {
	if b == nil || b.over == nil {
		return nil
	}
	select {
	case <-b.over:
		list, b.refused = b.refused, nil
	default:
	}
	return list
}

// Refused returns why segments could not be compiled while steps ran, once the last
// compilation of a program has ended. These segments stay op by op, or did until the
// program was closed. Each failure is returned once.
func (r *Runtime) Refused() (list []error) {
	list, r.refused = r.refused, nil
	for _, p := range r.programs {
		list = append(list, p.beside.takeRefused()...)
	}
	return list
}

// RefusedText says which segments could not be compiled, and why; "" if there are none.
func RefusedText(list []error) string {
	switch n := len(list); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("a segment cannot be compiled, and goes on op by op: %v", list[0])
	default:
		var each []string
		for _, err := range list[:min(n, 4)] {
			each = append(each, err.Error())
		}
		if n > len(each) {
			each = append(each, fmt.Sprintf("and %d more", n-len(each)))
		}
		return fmt.Sprintf("%d compilations failed, and their segments go on op by op: %s", n, strings.Join(each, "; "))
	}
}

// CompiledFrom is the step from which on all segments run compiled that could be
// compiled so far; 0: none does. Without LoadOptions.Beside it is 0.
func (p *Program) CompiledFrom() Ticket { return p.switched }

// keepUp starts compiling with the first step. Later it switches over to the executables
// that are ready: the steps under way end before, so that both forms never need memory at
// once.
func (p *Program) keepUp(ctx context.Context) error {
	b := p.beside
	if b.over == nil {
		b.begin(&p.rt.compiler)
	}
	if !b.fresh.Load() {
		return nil
	}
	if err := p.Drain(ctx); err != nil {
		return err
	}
	if err := p.freeHosts(); err != nil {
		return err
	}
	ready := b.take()
	for k, x := range ready {
		p.exes[k] = x
	}
	if err := p.expandAnew(nil); err != nil {
		return err
	}
	p.switched = p.Next()
	return p.dropCalls(ready)
}

// expandAnew prepares the steps of each size again, with the executables that there are, and by other plans
// in place of some.
func (p *Program) expandAnew(plans map[*partition.Plan]*partition.Plan) error {
	before := p.sizes
	p.sizes, p.stop = nil, stop.When(nil)
	for _, e := range before {
		size := e.stepSize
		size.full = cmp.Or(plans[size.full], size.full)
		l, err := p.list(size)
		if err == nil {
			err = p.expand(l)
		}
		if err != nil {
			p.sizes = before
			return err
		}
	}
	return nil
}

// dropCalls forgets the calls of variants that are compiled now, and their temporaries.
func (p *Program) dropCalls(of map[compiled]device.Executable) error {
	over := map[*residency.Tensor]bool{}
	for k := range of {
		p.calls[k].release()
		for _, t := range p.calls[k].temps {
			over[t] = true
		}
		delete(p.calls, k)
	}
	p.rt.Residency.SetUses(nil) // the order may have the temporaries
	p.rt.expected = nil
	var list []*residency.Tensor
	for k, t := range p.tensors {
		if over[t] {
			delete(p.tensors, k)
			list = append(list, t)
		}
	}
	return p.rt.Residency.Forget(list...)
}
