package cut

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/pieces"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/segment"
)

// part is neighbouring pieces of a cut that are on one device: a stage, what a pinned op leaves of one, or such ops alone.
type part struct {
	stage, device int
	whole         bool     // it has more than ops that are pinned away from their stage
	ops           []string // all that are pinned
}

// apart ends a cut: a pinned op leaves its stage where that is on another device. What comes before and behind the op
// stays there. Neighbouring ops on one device are together, and with the stage next to them that is there already. Then
// the causes are whole.
func (c Cut) apart(o Options) Cut {
	if len(o.Ops) > 0 {
		c = c.inParts(o)
	}
	for s := range c.Cause {
		c.Cause[s] += sharing(c.Device, s, o.Devices)
		if c.Fewer != nil {
			c.Cause[s] += "; " + c.Fewer.String()
		}
	}
	return c
}

// inParts puts the ops on their devices.
func (c Cut) inParts(o Options) Cut {
	order := make([]int, len(c.Blocks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return c.StageOf[a] - c.StageOf[b] })
	var parts []part
	stageOf := make([]int, len(c.Blocks))
	for _, i := range order {
		s := c.StageOf[i]
		x := part{stage: s, device: c.Device[s], whole: true}
		if d, pinned := o.Ops[c.Blocks[i]]; pinned {
			x = part{stage: s, device: d, whole: d == x.device, ops: []string{c.Blocks[i]}}
			c.Apart = c.Apart || !x.whole
		}
		if last := len(parts) - 1; last >= 0 && parts[last].joins(x) {
			parts[last].add(x)
		} else {
			parts = append(parts, x)
		}
		stageOf[i] = len(parts) - 1
	}
	cause := c.Cause
	if c.Fewer != nil && len(parts) >= c.Fewer.Asked {
		c.Fewer = nil
	}
	c.StageOf, c.Device, c.Cause = stageOf, nil, nil
	for _, p := range parts {
		c.Device = append(c.Device, p.device)
		why := arePinned(p.ops)
		if p.whole {
			why = cause[p.stage] + why
		} else {
			why = why[len(", "):]
		}
		c.Cause = append(c.Cause, why)
	}
	return c
}

// joins reports whether a part is one with what follows it.
func (p *part) joins(next part) bool {
	return p.device == next.device && (p.stage == next.stage || !p.whole || !next.whole)
}

// add adds what follows a part, which it joins.
func (p *part) add(next part) {
	p.ops = append(p.ops, next.ops...)
	if next.whole {
		p.stage, p.whole = next.stage, true
	}
}

// checkApart refuses pinned ops that their device does not run, and those that cut the stages of a schedule of the
// caller's own.
func checkApart(idx *nodes.Index, c Cut, o Options) error {
	if len(o.Ops) == 0 {
		return nil
	}
	if s := o.Pipeline.Order; s != nil && s.Stages != len(c.Device) {
		return AsPin("", fmt.Errorf("the schedule %q is for %s, and ops that are pinned need %d; use a schedule by name, or pin blocks",
			s.Name, units.Count(s.Stages, "stage"), len(c.Device)))
	}
	if o.Supports == nil {
		return nil
	}
	g := segment.GroupNodes(idx, place.Nodes(idx, len(c.Blocks), nodes.OneGroupEach(c.Blocks)))
	for i, b := range c.Blocks {
		d, pinned := o.Ops[b]
		if !pinned {
			continue
		}
		if err := refusal(g, i, d, o.Supports, false); err != nil {
			return AsPin(b, fmt.Errorf("op %q is pinned to %s, which does not run it: %s; pin it to another device", b, o.Devices[d].ID, WhyNot(err)))
		}
	}
	return nil
}

// Base is the number of stages before pinned ops have left them: what is on one device before and behind such an op is of one.
func (c Cut) Base(p pieces.Pieces) int {
	n, last, left := 0, -1, false // the stage counted last, and whether ops alone follow it
	for s, d := range c.Device {
		only := len(p) > 0
		for i, b := range c.Blocks {
			only = only && (c.StageOf[i] != s || p.Is(b))
		}
		switch {
		case only:
			left = true
			continue
		case !left || last < 0 || c.Device[last] != d:
			n++
		}
		last, left = s, false
	}
	return max(1, n)
}
