package streams

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// Compile plans a segment, or finds the executable of an equal one.
func (d *Device) Compile(g *graph.Graph, o device.CompileOptions) (device.Executable, error) {
	signature, err := signatureOf(g, o)
	if err != nil {
		return nil, d.notCompiled(g, err)
	}
	if err := d.refusal(); err != nil {
		return nil, err
	}
	x, from := d.cache.use(signature), device.InMemory
	if x != nil {
		d.hits.Add(1)
	} else if x, from, err = d.compile(g, o, signature); err != nil {
		return nil, err
	}
	if o.From != nil {
		o.From(from)
	}
	return x, nil
}

// compile is Compile of a segment that was not in the cache, and adds it.
func (d *Device) compile(g *graph.Graph, o device.CompileOptions, signature string) (x *executable, from device.Source, err error) {
	d.compiling.Lock()
	defer d.compiling.Unlock()
	if err := d.refusal(); err != nil {
		return nil, 0, err
	}
	if x = d.cache.use(signature); x != nil { // by now
		d.hits.Add(1)
		return x, device.InMemory, nil
	}
	d.misses.Add(1)
	if x, err = d.planned(g, o, signature); err != nil {
		return nil, 0, err
	}
	from = device.Anew
	if p, ok := x.program.(Loader); ok {
		if from, err = p.Load(o.Stop); err != nil {
			return nil, 0, d.notCompiled(g, err)
		}
	}
	d.cache.add(x)
	return x, from, nil
}

// Estimate plans a segment, unless an equal one was planned before, and keeps
// the plan for Compile.
func (d *Device) Estimate(g *graph.Graph, o device.CompileOptions) (device.Memory, error) {
	x, err := d.estimate(g, o)
	if err != nil {
		return device.Memory{}, err
	}
	return x.memory, nil
}

// Find implements [device.Finder].
func (d *Device) Find(list []device.Segment) ([]device.Source, error) {
	from := make([]device.Source, len(list)) // InMemory
	seen, kernels := map[string]bool{}, map[string]bool{}
	for i, s := range list {
		x, err := d.estimate(s.Graph, s.Options)
		if err != nil {
			return nil, err
		}
		if _, compiled := d.cache.find(x.signature); compiled || seen[x.signature] {
			continue
		}
		seen[x.signature], from[i] = true, device.Anew
		if p, ok := x.program.(Loader); ok {
			from[i] = p.Find(kernels)
		}
	}
	return from, nil
}

// estimate is the executable of a segment, which may need loading.
func (d *Device) estimate(g *graph.Graph, o device.CompileOptions) (*executable, error) {
	signature, err := signatureOf(g, o)
	if err != nil {
		return nil, d.notCompiled(g, err)
	}
	d.compiling.Lock()
	defer d.compiling.Unlock()
	if err := d.refusal(); err != nil {
		return nil, err
	}
	if x, compiled := d.cache.find(signature); compiled {
		return x, nil
	}
	x, err := d.planned(g, o, signature)
	if err == nil {
		d.cache.addPlan(x)
	}
	return x, err
}

// planned is the executable that Estimate planned for an equal segment, or a
// new one. It needs loading.
func (d *Device) planned(g *graph.Graph, o device.CompileOptions, signature string) (*executable, error) {
	if x, _ := d.cache.find(signature); x != nil {
		return x, nil
	}
	x, err := d.newExecutable(g, o)
	if err != nil {
		return nil, d.notCompiled(g, err)
	}
	x.signature, x.owner = signature, d
	return x, nil
}

// notCompiled is the error of a segment that could not be compiled.
func (d *Device) notCompiled(g *graph.Graph, err error) error {
	return fmt.Errorf("%s: compiling %s: %w", d.spec.ID, g.Name, err)
}
