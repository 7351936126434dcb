package session

import "github.com/berth-ml/berth/residency"

// Memory says who has the devices' memory, and the host's beside it. It takes no lock that a step needs, and may be called
// from any goroutine.
func (p *Pool) Memory() residency.Memory {
	if p.checkOpened() != nil {
		return residency.Memory{}
	}
	m := p.devices.Residency().Measure()
	m.Host.Limit, m.Host.Data = p.host, p.data.Bytes()
	return m
}

// Memory is that of the session's devices, and of the sessions without lost ones. Shared devices have that of all runs. Own
// devices have none before the first call that uses them. It may be called from any goroutine, and takes no lock that a step
// needs.
func (s *Session) Memory() residency.Memory {
	if s.held.shared != nil {
		return s.held.shared.Memory()
	}
	if m := s.held.memory.Load(); m != nil {
		return m.Measure()
	}
	return residency.Memory{}
}

// Tenant is the session's name in the Memory of shared devices; "" on its own.
func (s *Session) Tenant() string { return s.held.user.name }
