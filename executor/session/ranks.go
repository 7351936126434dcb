package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/internal/errs"
)

// openOfRanks gathers the devices of all ranks; devs are those that this one has opened, unless err says why not. All
// ranks have the same list: of the devices of others, each has the descriptions alone.
func (h *held) openOfRanks(devs []device.Device, err error) (all []device.Device, at, of []int, _ error) {
	ctx := context.Background()
	const what = "its devices"
	opened := devs // of which all are closed after an error
	fail := func(err error) ([]device.Device, []int, []int, error) {
		return nil, nil, nil, errors.Join(err, closeAll(opened))
	}
	if err := h.crew.Agree(ctx, what, err); err != nil {
		return fail(err)
	}
	mine, err := json.Marshal(specsOf(devs))
	if err != nil {
		return fail(err)
	}
	lists, err := h.crew.Gather(ctx, what, mine)
	if err != nil {
		return fail(err)
	}
	specs := make([][]device.Spec, len(lists)) // by rank
	for rank, b := range lists {
		if err := json.Unmarshal(b, &specs[rank]); err != nil {
			return fail(fmt.Errorf("%s describes its devices as %q: %w", h.crew.Name(rank), b, err))
		}
	}
	err = h.sameKernels(specs)
	for rank := 0; rank < len(specs) && err == nil; rank++ {
		for i, spec := range specs[rank] {
			d := device.Device(nil)
			if rank == h.crew.Rank() {
				d = devs[i]
			} else if d, err = describe(spec); err != nil {
				break
			} else {
				opened = append(opened, d)
			}
			all, at, of = append(all, d), append(at, i), append(of, rank)
		}
	}
	if err := h.crew.Agree(ctx, what, err); err != nil {
		return fail(err)
	}
	return all, at, of, nil
}

// asOfRanks gives other ranks devices like those that this process has opened, unless err says why not.
func (h *held) asOfRanks(devs []device.Device, err error) (all []device.Device, at, of []int, _ error) {
	if err != nil {
		return nil, nil, nil, err
	}
	supports := make([]map[*graph.Node]error, len(devs))
	for rank := range h.asRanks {
		for i, d := range devs {
			if supports[i] == nil {
				supports[i] = map[*graph.Node]error{}
			}
			if rank > 0 {
				_, name, _ := strings.Cut(string(d.ID()), "/")
				d = &twin{foreign{d}, device.ID(fmt.Sprintf("%d/%s", rank, name)), supports[i]}
			}
			all, at, of = append(all, d), append(at, i), append(of, rank)
		}
	}
	return all, at, of, nil
}

// twin is a device of a rank that there is not: one of this process by another name.
type twin struct {
	foreign
	id       device.ID
	supports map[*graph.Node]error // what its device has answered: there may be thousands of twins
}

// Supports is that of its device.
func (t *twin) Supports(n *graph.Node) error {
	err, known := t.supports[n]
	if !known {
		err = t.Device.Supports(n)
		t.supports[n] = err
	}
	return err
}

// ID is its own.
func (t *twin) ID() device.ID { return t.id }

// Spec is that of the device that it is like.
func (t *twin) Spec() device.Spec {
	spec := t.Device.Spec()
	spec.ID = t.id
	return spec
}

// Close leaves that device open.
func (t *twin) Close() error { return nil }

// sameKernels refuses devices of one kind that compute other bits than those of another rank.
func (h *held) sameKernels(specs [][]device.Spec) error {
	type first struct {
		rank     int
		numerics string
	}
	known := map[string]first{} // by kind
	for rank, list := range specs {
		for _, s := range list {
			f, ok := known[s.Kind]
			if !ok {
				known[s.Kind] = first{rank, s.Numerics}
			} else if f.numerics != s.Numerics {
				return fmt.Errorf("%w: the kernels of kind %s differ: they are %s on %s, and %s on %s: give all ranks the same ISA level with BERTH_CPU, such as BERTH_CPU=avx2, or the same driver",
					errs.ErrOptions, s.Kind, f.numerics, h.crew.Name(f.rank), s.Numerics, h.crew.Name(rank))
			}
		}
	}
	return nil
}

// describe is a device of another rank.
func describe(spec device.Spec) (device.Device, error) {
	d, err := device.Describe(spec)
	return &foreign{d}, err
}

// foreign is a device of another rank: a description, which plans ask what the device can compute and how much memory
// that takes. Nothing runs there from this rank.
type foreign struct{ device.Device }

// elsewhere is the error of whatever would run on the device.
func (f *foreign) elsewhere() error { return fmt.Errorf("BUG: %s is a device of another rank", f.ID()) }

// AllocHost is for a device of this rank.
func (f *foreign) AllocHost(int64) (device.HostBuffer, error) { return nil, f.elsewhere() }

// NewStream is for a device of this rank.
func (f *foreign) NewStream(string) (device.Stream, error) { return nil, f.elsewhere() }

// Compile is for a device of this rank.
func (f *foreign) Compile(*graph.Graph, device.CompileOptions) (device.Executable, error) {
	return nil, f.elsewhere()
}

// Crew is the ranks that the session is one of; nil: it is alone.
func (s *Session) Crew() *crew.Crew { return s.held.crew }

// Of is the rank that has a device.
func (s *Session) Of(d int) int {
	if s.of == nil {
		return 0
	}
	return s.of[d]
}

// Here reports whether this process has a device.
func (s *Session) Here(d int) bool { return s.of == nil || s.of[d] == s.rank() }

// Doing completes what this rank does: the operation that runs on one of its devices, or else the message of the runtime
// that has waited longest. Any goroutine may call it.
func (s *Session) Doing(rt *executor.Runtime, d crew.Doing) crew.Doing {
	d.Rank = -1
	for i, dev := range s.Devices {
		if x, ok := dev.Running(); ok && s.Here(i) {
			d.Rank, d.What = s.rank(), fmt.Sprintf("%s runs on %s", x.What, dev.ID())
			return d
		}
	}
	if waits := rt.Waits(); len(waits) > 0 {
		d.Rank, d.For = waits[0].Rank, waits[0].Task
	}
	return d
}

// rank is that of this process.
func (s *Session) rank() int {
	if s.held.crew == nil {
		return 0
	}
	return s.held.crew.Rank()
}

// groupsOfRanks are GroupDevices; where the plan's own devices are the only group, that.
func (s *Session) groupsOfRanks() [][]int {
	if list := s.GroupDevices(); list != nil {
		return list
	}
	var group []int
	for i := range s.Plan.Stages {
		group = append(group, s.Plan.DevicesOf(i)[0])
	}
	return [][]int{group}
}

// answersOfRanks has ranks share the batches of an evaluation.
func (s *Session) answersOfRanks() *infer.Ranks {
	c := s.held.crew
	const what = "results of its samples"
	return &infer.Ranks{
		Rank: c.Rank(),
		Send: func(ctx context.Context, b []byte) error { return c.Send(ctx, 0, what, b) },
		Recv: func(ctx context.Context, from int, b []byte) error { return c.Recv(ctx, from, what, b) },
	}
}

// own are the devices of this rank among some; of other ranks, nil.
func (s *Session) own(devs []device.Device) []device.Device {
	list := slices.Clone(devs)
	for d := range list {
		if !s.Here(d) {
			list[d] = nil
		}
	}
	return list
}

// ranks are those that share the runtime's plans; nil if this process is alone.
func (s *Session) ranks() *executor.Ranks {
	if s.held.crew == nil {
		return nil
	}
	return &executor.Ranks{Transport: s.held.crew.Transport(), Of: s.of}
}

// available is the memory in bytes that is free for this process.
func (s *Session) available() (int64, error) {
	free, err := host.Available()
	if c := s.held.crew; c != nil {
		free /= int64(c.Part().Of)
	}
	return free, err
}

// Hosted reports whether messages between ranks go through host memory here: the host does not address a device's memory.
func (s *Session) Hosted() bool {
	return s.held.crew != nil && slices.ContainsFunc(s.used(), func(d int) bool { return !s.Devices[d].Spec().HostVisible })
}

// MessageBytes is the host memory that messages to and from this rank take while programs are loaded.
func (s *Session) MessageBytes(programs ...executor.LoadOptions) (bytes int64, err error) {
	for _, o := range programs {
		n, err := o.MessageBytes(s.Planner.Specs, s.of, s.held.crew.Rank())
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// agreeOnPlan has all ranks compare their plans, which each has made by itself of the same devices.
func (s *Session) agreeOnPlan(err error) error {
	if s.held.crew == nil {
		return err
	}
	f := crew.Fact{Name: "the plan", Remedy: "give all ranks as many threads and as much memory, and the same program"}
	if err == nil {
		f.Value = s.planText()
	}
	return s.held.crew.Agree(context.Background(), "its plan", err, f)
}

// planText says in short which plan it is.
func (s *Session) planText() string {
	h := sha256.New()
	fmt.Fprintln(h, s.Plan.Schedule(), s.Plan.Replicas(), s.Plan.Microbatches)
	for i := range s.Plan.Stages {
		fmt.Fprintln(h, s.Plan.Stages[i].Blocks, s.Plan.DevicesOf(i))
	}
	for i := range s.Plan.Segments {
		fmt.Fprintln(h, s.Plan.Segments[i].Name, len(s.Plan.Segments[i].First.Graph.Nodes))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
