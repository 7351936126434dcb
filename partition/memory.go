package partition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// findTransfers lists what one stage reads of another, once per value and
// reading stage, in plan order.
func findTransfers(idx *index, pl *placement, segments []Segment, devices []int) []Transfer {
	type key struct {
		v  *graph.Value
		to int
	}
	seen := map[key]bool{}
	var ts []Transfer
	for _, s := range segments {
		for i, in := range s.First.In {
			v := s.First.Graph.Inputs[i]
			from, ok := source(idx, pl, v)
			if !ok || from == s.Stage || seen[key{in.Value, s.Stage}] {
				continue
			}
			seen[key{in.Value, s.Stage}] = true
			t := Transfer{Value: in.Value, From: from, To: s.Stage, Bytes: v.Meta.Bytes(), Rate: PerStep, Local: devices[from] == devices[s.Stage]}
			switch {
			case perMicrobatch(v) && s.Phase != graph.Update:
				t.Rate = PerMicrobatch
			case v.Kind == graph.Variable && idx.assigned[v] == nil:
				t.Rate = PerRun
			}
			ts = append(ts, t)
		}
	}
	return ts
}

// source is the stage that makes or owns v; ok is false for what is fed.
func source(idx *index, pl *placement, v *graph.Value) (stage int, ok bool) {
	if part := idx.part[v]; part != nil {
		v = part
	}
	switch v.Kind {
	case graph.Computed:
		return pl.node[v.Node.ID], true
	case graph.Variable:
		return pl.owner[v.Name], true
	}
	return 0, false
}

// describeStages is pass 8: what each stage holds, does and needs.
func describeStages(idx *index, p *Plan) []Stage {
	n := len(p.cut.device)
	stages := make([]Stage, n)
	has := map[int]map[*graph.Value]bool{} // per device: variables and inputs of earlier stages
	for s := range stages {
		d := p.cut.device[s]
		if has[d] == nil {
			has[d] = map[*graph.Value]bool{}
		}
		f := measure(idx, p.place, s, s+1, has[d])
		stages[s] = Stage{
			Index: s, Device: d, Parameters: f.parameters, Flops: f.flops, Again: f.again,
			Memory: f.memory(p.options.InFlight(n, s)), Cause: p.cut.cause[s],
		}
		for i, b := range p.cut.blocks {
			if p.cut.stageOf[i] == s {
				stages[s].Blocks = append(stages[s].Blocks, b)
			}
		}
		for _, seg := range p.Segments {
			if seg.Stage != s {
				continue
			}
			for _, slot := range append(slices.Clone(seg.First.In), seg.First.Out...) {
				has[d][slot.Value] = true
			}
		}
		stages[s].Layers = layersOf(idx, p.place, s)
	}
	for _, t := range p.Transfers {
		if t.Rate == PerMicrobatch {
			stages[t.To].BytesIn += t.Bytes
			stages[t.From].BytesOut += t.Bytes
		}
	}
	return stages
}

// layersOf lists the layers that have a forward node on a stage, by position.
func layersOf(idx *index, pl *placement, stage int) []*graph.Layer {
	var ls []*graph.Layer
	seen := map[*graph.Layer]bool{}
	for _, n := range idx.g.Nodes {
		if n.Layer != nil && n.Phase == graph.Forward && pl.node[n.ID] == stage && !seen[n.Layer] {
			seen[n.Layer] = true
			ls = append(ls, n.Layer)
		}
	}
	slices.SortStableFunc(ls, func(a, b *graph.Layer) int { return a.Index - b.Index })
	return ls
}

// checkMemory compares what each device must hold with what it has.
func checkMemory(idx *index, p *Plan) error {
	for d, spec := range p.options.Devices {
		var need [device.NumUsages]int64
		var stages []string
		for _, s := range p.Stages {
			if s.Device != d {
				continue
			}
			stages = append(stages, fmt.Sprint(s.Index))
			for u, b := range s.Memory {
				need[u] += b
			}
		}
		if spec.MemoryBytes <= 0 || total(need) <= spec.MemoryBytes {
			continue
		}
		return fmt.Errorf("%w: stage %s on %s needs %s (%s) and there are %s; %s; use more devices or a smaller microbatch, %sor give the device more memory",
			ErrMemory, strings.Join(stages, "+"), spec.ID, bytesText(total(need)), usageText(need), bytesText(spec.MemoryBytes), largestLayer(idx), recomputeHint(p))
	}
	return nil
}

// recomputeHint offers to keep less for a backward pass, where there is one
// that does not compute all it can again.
func recomputeHint(p *Plan) string {
	backward := slices.ContainsFunc(p.Graph.Nodes, func(n *graph.Node) bool { return n.Phase == graph.Backward })
	if !backward || p.options.Recompute == RecomputeBlock {
		return ""
	}
	return "set partition.recompute to block, "
}

// Room is the bytes of all devices together; 0 where one of them has no limit.
func Room(devices []device.Spec) (bytes int64) {
	for _, d := range devices {
		if d.MemoryBytes <= 0 {
			return 0
		}
		bytes += d.MemoryBytes
	}
	return bytes
}

// TooLarge is ErrMemory for parameters that have no room on all devices
// together, which is known before anything is planned; largest is the layer with
// the most bytes of them.
func TooLarge(parameters, room int64, largest *graph.Layer, bytes int64) error {
	return fmt.Errorf("%w: it needs %s for the parameters alone and there are %s; the largest layer is %v with %s of them; use a smaller model, or give the devices more memory",
		ErrMemory, bytesText(parameters), bytesText(room), largest, bytesText(bytes))
}

// usageText lists the usages that are not zero.
func usageText(m [device.NumUsages]int64) string {
	var s []string
	for u, b := range m {
		if b > 0 {
			s = append(s, fmt.Sprintf("%v %s", device.Usage(u), bytesText(b)))
		}
	}
	return strings.Join(s, ", ")
}

// largestLayer names the layer with the most bytes of variables and forward
// results.
func largestLayer(idx *index) string {
	bytes := map[*graph.Layer]int64{}
	var order []*graph.Layer
	add := func(l *graph.Layer, v *graph.Value) {
		if l == nil {
			return
		}
		if _, seen := bytes[l]; !seen {
			order = append(order, l)
		}
		bytes[l] += v.Meta.Bytes()
	}
	for _, v := range idx.g.Vars {
		add(v.Layer, v)
	}
	for _, n := range idx.g.Nodes {
		if n.Phase == graph.Forward {
			for _, v := range n.Out {
				add(n.Layer, v)
			}
		}
	}
	var best *graph.Layer
	for _, l := range order {
		if best == nil || bytes[l] > bytes[best] {
			best = l
		}
	}
	if best == nil {
		return "the graph has no layers"
	}
	return fmt.Sprintf("the largest layer is %v with %s of variables and activations", best, bytesText(bytes[best]))
}
