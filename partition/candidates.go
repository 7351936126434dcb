package partition

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/order"
)

// Candidate is one way to use devices: so many stages and replicas, and a schedule.
type Candidate struct {
	Stages, Replicas int
	Schedule         string
	Plan             *Plan       // nil where Err is not
	Prediction       *Prediction // of Plan
	Err              error       // why there is no such plan, such as ErrMemory
	Chosen           bool        // it is the one that partition: auto takes
}

// Memory is the most bytes of the candidate's plan on one device.
func (c *Candidate) Memory() (most int64) {
	for i := range c.Plan.Memory {
		most = max(most, c.Plan.Memory[i].Peak)
	}
	return most
}

// fewDevices is the most devices of which every number of stages and replicas is a
// candidate. Of more, candidates have one device or use most of them.
const fewDevices = 8

// layout is a number of stages and replicas.
type layout struct{ stages, replicas int }

// layouts lists the candidates' stages and replicas, for that many blocks; those with
// few devices come first.
func layouts(devices, blocks, replicas int) (list []layout) {
	most := 1
	var all []layout
	for _, r := range sizesUpTo(min(replicas, devices)) {
		for _, s := range sizesUpTo(min(blocks, devices/r)) {
			all = append(all, layout{s, r})
			most = max(most, s*r)
		}
	}
	for _, l := range all {
		if n := l.stages * l.replicas; devices <= fewDevices || n == 1 || n > most/2 {
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b layout) int {
		return cmp.Or(cmp.Compare(a.stages*a.replicas, b.stages*b.replicas), cmp.Compare(b.stages, a.stages))
	})
	return list
}

// sizesUpTo are all numbers up to n, or of a large n the powers of two and n.
func sizesUpTo(n int) (list []int) {
	for i := 1; i <= n; i++ {
		if n <= fewDevices || i&(i-1) == 0 || i == n {
			list = append(list, i)
		}
	}
	return list
}

// variant is a schedule of a candidate, and the number of its stages.
type variant struct {
	schedule string
	stages   int
}

// variantsOf are the candidates for a layout of so many devices and blocks. Interleaved
// stages go round all devices of a replica.
func variantsOf(l layout, devices, blocks int) []variant {
	list := []variant{{"1f1b", l.stages}}
	switch {
	case l.stages == 1:
		return list
	case devices > fewDevices:
		return append(list, variant{"zb-h1", l.stages})
	}
	list = append(list, variant{"gpipe", l.stages}, variant{"zb-h1", l.stages})
	if n := order.RoundsPerDevice * l.stages; l.stages == devices/l.replicas && n <= blocks {
		list = append(list, variant{order.Interleaved, n})
	}
	return list
}

// Candidates plans for the numbers of stages and replicas that the devices have room
// for, with each schedule; those with few devices come first. Replicas need
// ReduceTree. Stages, Count, Replicas, Schedule and Order of the options are not used.
func Candidates(g *graph.Graph, o PlanOptions) ([]Candidate, error) {
	check := stop.When(o.Stop)
	replicas := 1
	if o.Reduction == ReduceTree {
		replicas = max(1, o.Microbatches)
	}
	var list []Candidate
	blocks := max(1, len(nodes.Blocks(g)))
	for _, l := range layouts(len(o.Devices), blocks, replicas) {
		for _, v := range variantsOf(l, len(o.Devices), blocks) {
			c := Candidate{Stages: v.stages, Replicas: l.replicas, Schedule: v.schedule}
			if err := c.plan(g, o); err != nil {
				return nil, err
			}
			if err := check.Err(); err != nil {
				return nil, err
			}
			if c.Plan != nil && c.Plan.Fewer != nil {
				break // there are not as many stages
			}
			list = append(list, c)
		}
	}
	return list, PredictAll(list, o.Stop)
}

// plan makes the candidate's plan, or finds out why there is none.
func (c *Candidate) plan(g *graph.Graph, o PlanOptions) error {
	o.Stages, o.Order, o.Count, o.Replicas, o.Schedule = nil, nil, c.Stages, c.Replicas, c.Schedule
	p, err := New(g, o)
	switch {
	case errors.Is(err, ErrMemory), errors.Is(err, ErrStages), errors.Is(err, ErrReplicas):
		c.Err = err
	case err != nil:
		return err
	default:
		c.Plan = p
	}
	return nil
}

// PredictAll predicts the time of each candidate that has a plan, for example after
// its segments were measured.
func PredictAll(list []Candidate, ask func() error) (err error) {
	for i := range list {
		if c := &list[i]; c.Plan != nil {
			if c.Prediction, err = c.Plan.Predict(ask); err != nil {
				return err
			}
		}
	}
	return nil
}

// CandidateTable lists candidates: the predicted time of a step, the share of it in which
// devices wait, and the most memory on a device. head and cells are a column before the
// others. A line has at most width characters.
func CandidateTable(head string, cells []string, list []Candidate, width int) string {
	rows := [][]string{{head, "stages", "replicas", "schedule", "devices", "step", "idle", "most memory", "note"}}
	for i := range list {
		c := &list[i]
		row := []string{cells[i], fmt.Sprint(c.Stages), fmt.Sprint(c.Replicas), c.Schedule}
		if c.Plan == nil {
			row = append(row, "-", "-", "-", "-", firstClause(c.Err))
		} else {
			row = append(row, fmt.Sprint(len(c.Plan.Devices())), units.Seconds(c.Prediction.Seconds), fmt.Sprintf("%.0f%%", 100*c.Prediction.Bubble), units.Bytes(c.Memory()), c.note())
		}
		rows = append(rows, row)
	}
	return align(rows, width, map[int]bool{3: true, 8: true}, 6, 2)
}

// note says whether auto takes the plan, and where it is short of memory.
func (c *Candidate) note() string {
	var notes []string
	if c.Chosen {
		notes = append(notes, "auto takes it")
	}
	var moved int64
	for i := range c.Plan.Memory {
		moved += c.Plan.Memory[i].Moved()
	}
	if moved > 0 {
		notes = append(notes, "moves "+units.Bytes(moved))
	}
	return strings.Join(notes, "; ")
}

// firstClause is an error without its advice, and without the sizes of a plan that does
// not fit.
func firstClause(err error) string {
	if errors.Is(err, ErrMemory) {
		return "does not fit"
	}
	text, _, _ := strings.Cut(err.Error(), ";")
	return text
}

// muchFaster is the gain, as a share of a step, for which a candidate is preferred to
// one with fewer devices or a simpler schedule.
const muchFaster = 0.03

// Choose is the fastest candidate. One with more devices is preferred only if it is
// faster by a good deal. If there is none, the error is that of the last one.
func Choose(list []Candidate) (*Candidate, error) {
	var best *Candidate
	err := fmt.Errorf("%w: the list of candidate plans is empty", ErrStages)
	for i := range list {
		c := &list[i]
		switch {
		case c.Plan == nil:
			err = c.Err
		case best == nil || c.Prediction.Seconds < best.Prediction.Seconds*(1-muchFaster):
			best = c
		}
	}
	if best == nil {
		return nil, err
	}
	return best, nil
}

// Schedule is the name of the plan's schedule.
func (p *Plan) Schedule() string { return p.options.Schedule }

// Specs describes the devices that the plan was made for.
func (p *Plan) Specs() []device.Spec { return p.options.Devices }
