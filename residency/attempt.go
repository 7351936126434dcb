package residency

import "github.com/berth-ml/berth/engine/device"

// attempt is one call of Acquire. It is tried again after each pause: copies that
// it made current by then are kept, but nothing is locked meanwhile.
type attempt struct {
	m       *Manager
	s       device.Stream
	queue   device.Queue // of s
	needs   []Need
	scratch int64 // bytes
	lease   *Lease
	call    uint64 // the manager's clock
	cleared bool   // it has given up all it had, since the last pause
	launch  int    // in the known order of uses; -1 if it is not there
}

// undo frees the memory that the attempt got and did not fill. It also unlocks the
// copies that the attempt wanted.
func (a *attempt) undo() {
	m := a.m
	m.scratch.attempt++
	for i := range a.needs {
		n := &a.needs[i]
		if !m.knows(n) {
			continue
		}
		if c := n.copy(); c.buf != nil && c.version == 0 && c.leased == 0 {
			m.devs[n.Device].free(n.Tensor, "not acquired")
		}
	}
	if a.lease.Scratch != nil {
		m.devs[a.needs[0].Device].note(a.lease.Scratch.Free(), "scratch")
		a.lease.Scratch = nil
	}
}
