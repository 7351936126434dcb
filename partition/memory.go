package partition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// checkMemory compares the memory that each device needs with what it has.
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

// recomputeHint suggests recomputing activations, if the plan has a backward pass
// that does not recompute all it can.
func recomputeHint(p *Plan) string {
	backward := slices.ContainsFunc(p.Graph.Nodes, func(n *graph.Node) bool { return n.Phase == graph.Backward })
	if !backward || p.options.Recompute == RecomputeBlock {
		return ""
	}
	return "set partition.recompute to block, "
}

// Room is the memory of all devices together in bytes; 0 if one has no limit.
func Room(devices []device.Spec) (bytes int64) {
	for _, d := range devices {
		if d.MemoryBytes <= 0 {
			return 0
		}
		bytes += d.MemoryBytes
	}
	return bytes
}

// TooLarge is the ErrMemory for parameters that do not fit on all devices
// together, which is known before planning. largest is the layer with the most
// bytes of parameters.
func TooLarge(parameters, room int64, largest *graph.Layer, bytes int64) error {
	return fmt.Errorf("%w: it needs %s for the parameters alone and there are %s; the largest layer is %v with %s of them; use a smaller model, or give the devices more memory",
		ErrMemory, bytesText(parameters), bytesText(room), largest, bytesText(bytes))
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
	for _, n := range stop.Each(idx.stop, idx.g.Nodes) {
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
