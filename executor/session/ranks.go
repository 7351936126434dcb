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
)

// openOfRanks gathers the devices of all ranks; devs are those that this one has opened, unless err says why not. All
// ranks have the same list: of the devices of others, each has the descriptions alone.
func (h *held) openOfRanks(devs []device.Device, err error) (all []device.Device, at, of []int, _ error) {
	ctx := context.Background()
	err = h.crew.Agree(ctx, "its devices", err, crew.Fact{
		Name: "the kind of devices", Value: kindsText(devs),
		Remedy: "give all ranks devices of the same kinds, and the same ISA level with BERTH_CPU, such as BERTH_CPU=avx2",
	})
	if err != nil {
		return nil, nil, nil, errors.Join(err, closeAll(devs))
	}
	mine, err := json.Marshal(specsOf(devs))
	if err != nil {
		return nil, nil, nil, errors.Join(err, closeAll(devs))
	}
	lists, err := h.crew.Gather(ctx, "its devices", mine)
	if err != nil {
		return nil, nil, nil, errors.Join(err, closeAll(devs))
	}
	for rank, b := range lists {
		var specs []device.Spec
		if err := json.Unmarshal(b, &specs); err != nil {
			return nil, nil, nil, errors.Join(fmt.Errorf("%s describes its devices as %q: %w", h.crew.Name(rank), b, err), closeAll(devs))
		}
		for i, spec := range specs {
			d := device.Device(&foreign{spec: spec, like: likeOf(devs, spec)})
			if rank == h.crew.Rank() {
				d = devs[i]
			}
			all, at, of = append(all, d), append(at, i), append(of, rank)
		}
	}
	return all, at, of, nil
}

// kindsText are the kinds of devices, with the instructions that their results depend on.
func kindsText(devs []device.Device) string {
	var list []string
	for _, d := range devs {
		spec := d.Spec()
		list = append(list, strings.TrimSpace(spec.Kind+" "+spec.Numerics))
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " and ")
}

// likeOf is a device of this rank that computes what one of that description does.
func likeOf(devs []device.Device, spec device.Spec) device.Device {
	i := slices.IndexFunc(devs, func(d device.Device) bool {
		own := d.Spec()
		return own.Kind == spec.Kind && own.Numerics == spec.Numerics
	})
	return devs[i] // there is one: all ranks have the same kinds
}

// foreign is a device of another rank. It has a description, and says what the device can compute and how much memory
// that takes, as plans need it. Nothing runs there from this rank.
type foreign struct {
	spec device.Spec
	like device.Device // of this rank
}

func (f *foreign) ID() device.ID                   { return f.spec.ID }
func (f *foreign) Spec() device.Spec               { return f.spec }
func (f *foreign) Supports(n *graph.Node) error    { return f.like.Supports(n) }
func (f *foreign) Stats() device.Stats             { return device.Stats{} }
func (f *foreign) Running() (device.Command, bool) { return device.Command{}, false }
func (f *foreign) Passed(device.Event)             {}
func (f *foreign) GiveUp(error)                    {}
func (f *foreign) Close() error                    { return nil }

func (f *foreign) Estimate(g *graph.Graph, o device.CompileOptions) (device.Memory, error) {
	return f.like.Estimate(g, o)
}

// elsewhere is the error of whatever would run on the device.
func (f *foreign) elsewhere() error {
	return fmt.Errorf("BUG: %s is a device of another rank", f.spec.ID)
}

func (f *foreign) AllocHost(int64) (device.HostBuffer, error) { return nil, f.elsewhere() }
func (f *foreign) NewStream(string) (device.Stream, error)    { return nil, f.elsewhere() }
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
func (s *Session) Here(d int) bool { return s.held.crew == nil || s.of[d] == s.held.crew.Rank() }

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
		Rank: c.Rank(), Of: s.of,
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
	for i := range s.Plan.Memory {
		f := &s.Plan.Memory[i]
		fmt.Fprintln(h, f.Device, f.Peak, f.Tight())
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
