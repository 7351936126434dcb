package executor

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition"
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

// compiler compiles for a runtime, and counts. Its methods are safe for concurrent use.
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

// compiled is a segment's variant on a device.
type compiled struct {
	*partition.Variant
	device int // index in Runtime.Devices
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
