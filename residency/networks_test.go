package residency_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// network is a tenant that runs additions of its tensors on devices, from a goroutine
// of its own.
type network struct {
	name   string
	tasks  []addition
	values []float32 // of each tensor, after the tasks that were queued; all its elements are equal

	u       *residency.Tenant
	devs    []device.Device
	adders  []device.Executable // per device
	streams []device.Stream
	tensors []*residency.Tensor
	reads   bool // it pulls all back after each task
	ordered bool // it runs the tasks twice, and the order of uses is known
	ahead   bool // it prefetches what the next task needs
}

// addition is the task to += from on a device.
type addition struct{ to, from, device int }

// elements is the size of every tensor, and bytes its memory.
const (
	elements = 64
	bytes    = 4 * elements
)

// errStuck is the cause with which the test gives a device up.
var errStuck = errors.New("the test gave up a device that hangs")

// adder compiles y += x.
func adder(t rapid.TB, d device.Device) device.Executable {
	b := graph.NewBuilder("add", 1)
	y, x := b.Input("y", shape.F32(elements)), b.Input("x", shape.F32(elements))
	sum := ops.Add(b, y, x)
	b.Output(sum.Name, sum)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := d.Compile(g, device.CompileOptions{Alias: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// run joins, runs all tasks, checks the results and leaves.
func (n *network) run(ctx context.Context, m *residency.Manager) (err error) {
	if n.u, err = m.Join(ctx, residency.TenantOptions{Name: n.name}); err != nil {
		return err
	}
	defer func() {
		for _, s := range n.streams {
			err = errors.Join(err, s.Close())
		}
		err = errors.Join(err, n.u.Close())
	}()
	for _, d := range n.devs {
		s, err := d.NewStream(n.u.StreamName("compute"))
		if err != nil {
			return err
		}
		n.streams = append(n.streams, s)
	}
	if err := n.fill(); err != nil {
		return err
	}
	tasks := n.tasks
	if n.ordered {
		var launches []residency.Launch
		for _, x := range n.tasks {
			launches = append(launches, residency.Launch{Needs: n.needs(x), Scratch: n.adders[x.device].Memory().Temporary})
		}
		n.u.SetUses(n.u.NewUses(launches))
		tasks = append(tasks, tasks...)
	}
	for i, x := range tasks {
		if err := n.add(ctx, x); err != nil {
			return fmt.Errorf("task %d: %w", i, err)
		}
		if n.ahead && i+1 < len(tasks) {
			if err := n.u.Prefetch(ctx, n.needs(tasks[i+1])); err != nil {
				return fmt.Errorf("prefetch for task %d: %w", i+1, err)
			}
		}
		if n.reads {
			if err := n.check(ctx); err != nil {
				return fmt.Errorf("after task %d: %w", i, err)
			}
		}
	}
	for _, s := range n.streams {
		if err := s.Record().Wait(ctx); err != nil {
			return err
		}
	}
	return n.check(ctx)
}

// fill gives every tensor its first contents.
func (n *network) fill() error {
	for i, v := range n.values {
		x, err := n.u.Declare(residency.Key{Value: fmt.Sprint("t", i)}, shape.F32(elements), device.Weight)
		if err != nil {
			return err
		}
		n.tensors = append(n.tensors, x)
		all := make([]float32, elements)
		for k := range all {
			all[k] = v
		}
		if err := n.u.Fill(x, shape.Bytes(all)); err != nil {
			return err
		}
	}
	return nil
}

// needs is those of a task.
func (n *network) needs(x addition) []residency.Need {
	return []residency.Need{
		{Tensor: n.tensors[x.to], Device: x.device, Mode: residency.ReadWrite},
		{Tensor: n.tensors[x.from], Device: x.device, Mode: residency.Read},
	}
}

// add queues a task.
func (n *network) add(ctx context.Context, x addition) error {
	var l residency.Lease
	exe, s := n.adders[x.device], n.streams[x.device]
	if err := n.u.Acquire(ctx, s, n.needs(x), exe.Memory().Temporary, &l); err != nil {
		return err
	}
	done, err := s.Launch(exe, l.Buffers, l.Buffers[:1], l.Scratch)
	if err != nil {
		return errors.Join(err, n.u.Abandon(&l))
	}
	n.values[x.to] += n.values[x.from]
	l.Ready[0] = l.Buffers[0].Ready()
	return n.u.Release(&l, done)
}

// errWrong says that contents are not those of the tasks, though nothing failed.
var errWrong = errors.New("wrong contents")

// check pulls all tensors back and compares them.
func (n *network) check(ctx context.Context) error {
	if err := n.u.PullBack(ctx, ledger.Epoch, n.tensors...); err != nil {
		return err
	}
	for i, x := range n.tensors {
		err := n.u.View(x, func(b []byte) error {
			for k, v := range shape.View[float32](b) {
				if v != n.values[i] {
					return fmt.Errorf("%w: %s[%d] is %v, want %v", errWrong, x.Name(), k, v, n.values[i])
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// drawFault draws one of the faults of a device.
func drawFault(t *rapid.T, devices int) fault.Fault {
	f := fault.Fault{
		Device: device.ID(fmt.Sprint("cpu:", rapid.IntRange(0, devices-1).Draw(t, "device"))),
		Op:     rapid.SampledFrom([]fault.Op{fault.Launch, fault.CopyIn, fault.CopyOut, fault.Peer, fault.Repeat, fault.Alloc}).Draw(t, "op"),
		Kind:   rapid.SampledFrom([]fault.Kind{fault.Fail, fault.Fail, fault.OOM, fault.Lost, fault.Hang}).Draw(t, "kind"),
		N:      rapid.IntRange(1, 40).Draw(t, "n"),
	}
	if f.Op == fault.Alloc && f.Kind == fault.Hang {
		f.Kind = fault.Fail
	}
	return f
}

// drawNetwork draws the tasks of a network.
func drawNetwork(t *rapid.T, name string, devices int) *network {
	n := &network{name: name, reads: rapid.IntRange(0, 3).Draw(t, "reads") == 0, ordered: rapid.Bool().Draw(t, "ordered"), ahead: rapid.Bool().Draw(t, "ahead")}
	for i := range rapid.IntRange(2, 5).Draw(t, "tensors") {
		n.values = append(n.values, float32(i+1))
	}
	for range rapid.IntRange(1, 20).Draw(t, "tasks") {
		to := rapid.IntRange(0, len(n.values)-1).Draw(t, "to")
		from := (to + rapid.IntRange(1, len(n.values)-1).Draw(t, "from")) % len(n.values)
		n.tasks = append(n.tasks, addition{to, from, rapid.IntRange(0, devices-1).Draw(t, "on")})
	}
	return n
}

// giveUpHung gives up devices on which an operation takes too long, until stop is
// closed.
func giveUpHung(devs []device.Device, stop chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for _, d := range devs {
			if c, ok := d.Running(); ok && time.Since(c.Since) > 100*time.Millisecond {
				d.GiveUp(fmt.Errorf("%w: %s", errStuck, c.What))
			}
		}
	}
}

// Networks share devices of any size, and operations of the devices fail, hang or
// are lost. Each network ends with the sums it has alone, or with an error that names
// a fault. A fault that fails one operation fails one network at most, and none if that is
// a copy. Nothing is left, and nothing hangs.
func TestNetworksShareFailingDevices(t *testing.T) {
	hangs := testall.Or(3, 1000) // each takes time
	rapid.Check(t, func(t *rapid.T) {
		leaks := goleak.IgnoreCurrent()
		devices := rapid.IntRange(1, 2).Draw(t, "devices")
		var list []fault.Fault
		for range rapid.IntRange(0, 2).Draw(t, "faults") {
			f := drawFault(t, devices)
			if f.Kind == fault.Hang {
				if hangs--; hangs < 0 {
					f.Kind = fault.Fail
				}
			}
			list = append(list, f)
		}
		var ns []*network
		for i := range rapid.IntRange(1, 3).Draw(t, "networks") {
			ns = append(ns, drawNetwork(t, fmt.Sprint("n", i), devices))
		}
		memory := int64(rapid.IntRange(2, 12).Draw(t, "tensors that fit")) * bytes
		suffer(t, devices, memory, list, ns)
		goleak.VerifyNone(t, leaks)
	})
}

// suffer runs networks at once on devices with faults.
func suffer(t rapid.TB, devices int, memory int64, list []fault.Fault, ns []*network) {
	opened, err := device.Open("cpu", device.OpenOptions{Count: devices, Threads: devices, MemoryBytes: memory})
	if err != nil {
		t.Fatal(err)
	}
	devs, err := fault.Wrap(opened, list)
	if err != nil {
		t.Fatal(err)
	}
	m, err := residency.New(devs, residency.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var adders []device.Executable
	for _, d := range devs {
		adders = append(adders, adder(t, d))
	}
	stop := make(chan struct{})
	var watching sync.WaitGroup
	if slices.ContainsFunc(list, func(f fault.Fault) bool { return f.Kind == fault.Hang }) { // or a machine that is busy would count as hanging
		watching.Go(func() { giveUpHung(devs, stop) })
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	errs := make([]error, len(ns))
	var running sync.WaitGroup
	for i, n := range ns {
		n.devs, n.adders = devs, adders
		running.Go(func() { errs[i] = n.run(ctx, m) })
	}
	running.Wait()
	failed := 0
	for i, err := range errs {
		if err != nil {
			failed++
		}
		if !named(err, list) {
			t.Errorf("network %d: %v, and the faults were %v", i, err, list)
		}
	}
	if len(list) == 1 && list[0].Kind == fault.Fail && failed > 1 {
		t.Errorf("%v failed %d networks: %v", list[0], failed, errs)
	}
	if failed > 0 && harmless(list) {
		t.Errorf("%v failed %d networks, though copies are repeated: %v", list, failed, errs)
	}
	if err := m.Close(); !named(err, list) {
		t.Errorf("the manager: %v", err)
	}
	close(stop)
	watching.Wait()
	for _, d := range devs {
		if live := d.Stats().Live; live != 0 {
			t.Errorf("%s has %d bytes in use in the end", d.ID(), live)
		}
	}
	for _, d := range opened {
		if err := d.Close(); !named(err, list) {
			t.Errorf("%s: %v", d.ID(), err)
		}
	}
}

// harmless reports whether faults are of copies that are repeated.
func harmless(list []fault.Fault) bool {
	return len(list) <= 2 && !slices.ContainsFunc(list, func(f fault.Fault) bool {
		copies := []fault.Op{fault.CopyIn, fault.CopyOut, fault.Peer, fault.Repeat}
		return !slices.Contains(copies, f.Op) || f.Kind != fault.Fail && f.Kind != fault.OOM
	})
}

// named reports whether an error names one of the faults. nil does.
func named(err error, list []fault.Fault) bool {
	if err == nil || errors.Is(err, errWrong) || errors.Is(err, context.DeadlineExceeded) {
		return err == nil
	}
	for _, f := range list {
		hang := f.Kind == fault.Hang && errors.Is(err, errStuck)
		if hang || errors.Is(err, fault.ErrInjected) && strings.Contains(err.Error(), f.String()) {
			return true
		}
	}
	return false
}
