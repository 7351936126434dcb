package residency

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
)

// lru is the policy of the rule paging.LRU.
type lru struct{ list []paging.Old }

// Victim chooses the copy that was used longest ago.
func (l *lru) Victim(c []device.Candidate) int {
	l.list = l.list[:0]
	for i := range c {
		l.list = append(l.list, paging.Old{Used: c[i].LastUse, Distance: c[i].NextUse, Name: c[i].Name})
	}
	return paging.Oldest(l.list)
}

// evictorOf is a device's policy for which copy to give up; nil: the common one.
func evictorOf(d device.Device, r paging.Rule) device.Evictor {
	if r == paging.LRU {
		return &lru{}
	}
	return device.EvictorOf(d)
}
