package device

import "github.com/berth-ml/berth/engine/graph"

// Source says where Compile gets an executable.
type Source uint8

// The sources, from the quickest to the slowest.
const (
	InMemory Source = iota // the device, or the process, has an equal one, or its kernels
	OnDisk                 // the user's cache has its kernels
	Anew                   // it is compiled
)

// Segment is a graph to compile.
type Segment struct {
	Graph   *graph.Graph
	Options CompileOptions
}

// Finder is a Device that knows where Compile would get executables.
type Finder interface {
	// Find tells where Compile would get each of several segments, if it were called for
	// one after the other and none was released. Nothing is compiled. It blocks.
	Find(list []Segment) ([]Source, error)
}

// Find asks a device, or the device that it wraps. One that is no Finder compiles all
// segments anew.
func Find(d Device, list []Segment) ([]Source, error) {
	f, ok := d.(Finder)
	if !ok {
		f, ok = Opened(d).(Finder)
	}
	if ok {
		return f.Find(list)
	}
	all := make([]Source, len(list))
	for i := range all {
		all[i] = Anew
	}
	return all, nil
}
