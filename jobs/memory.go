package jobs

import "github.com/berth-ml/berth"

// Memory says who has the memory of the daemon's devices, and the host's beside it, with the job of each run. It takes no
// lock that a step needs.
func (d *Daemon) Memory() berth.Memory {
	m := d.owned.Memory()
	for i := range m.Devices {
		for j := range m.Devices[i].Tenants {
			t := &m.Devices[i].Tenants[j]
			if id, ok := d.names.Load(t.Name); ok {
				t.Job = id.(int)
			}
			for _, name := range t.Users {
				if id, ok := d.names.Load(name); ok {
					t.Jobs = append(t.Jobs, id.(int))
				}
			}
		}
	}
	return m
}
