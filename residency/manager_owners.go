package residency

import (
	"fmt"
	"sync"

	"github.com/berth-ml/berth/engine/device"
)

// owners knows the manager of every device that has one. A device's memory has one
// manager: two could not make room for each other.
var owners struct {
	mu sync.Mutex
	of map[device.Device]*Manager // by device as it was opened
}

// own makes m the manager of its devices, of all or of none.
func (m *Manager) own() error {
	owners.mu.Lock()
	defer owners.mu.Unlock()
	if owners.of == nil {
		owners.of = map[device.Device]*Manager{}
	}
	for i := range m.devs {
		d := device.Opened(m.devs[i].dev)
		if o := owners.of[d]; o != nil {
			m.disownLocked(i)
			if o == m {
				return fmt.Errorf("%w: %s is in the list twice: name each device once", ErrOwned, m.devs[i].id)
			}
			return fmt.Errorf("%w: %s belongs to %s: share that, or close it first", ErrOwned, m.devs[i].id, o.name)
		}
		owners.of[d] = m
	}
	return nil
}

// disown gives the devices back.
func (m *Manager) disown() {
	owners.mu.Lock()
	defer owners.mu.Unlock()
	m.disownLocked(len(m.devs))
}

// disownLocked gives the first n devices back.
func (m *Manager) disownLocked(n int) {
	for i := range m.devs[:n] {
		delete(owners.of, device.Opened(m.devs[i].dev))
	}
}
