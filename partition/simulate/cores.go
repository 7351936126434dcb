package simulate

import (
	"cmp"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// cores are those of a host, on which devices run launches, and copies to and from them run, too. A launch takes the cores
// that launches placed before have left it, and goes on slower where these are fewer than its threads. The simulation owns one
// for each rank.
type cores struct {
	count  float64
	usage  []usage // in order; before the first, no core is busy, and from the last on neither
	stolen float64 // core seconds that copies took from launches placed before; the next launch makes up for them
}

// usage is how many cores are busy from a time on.
type usage struct{ from, busy float64 }

// coresOf are the cores of the host, per rank, where devices or copies compete for them; nil elsewhere.
func coresOf(devices []device.Spec, ranks []int, moving bool) []*cores {
	list := make([]*cores, 1)
	if ranks != nil {
		list = make([]*cores, slices.Max(ranks)+1)
	}
	on := make([]int, len(list)) // devices
	for d, s := range devices {
		if s.Cores == 0 {
			continue
		}
		r := 0
		if ranks != nil {
			r = ranks[d]
		}
		if list[r] == nil {
			list[r] = &cores{}
		}
		list[r].count = max(list[r].count, float64(s.Cores), float64(s.OfCores))
		on[r]++
	}
	for r, n := range on {
		if n < 2 && !moving {
			list[r] = nil // nobody competes
		}
	}
	return list
}

// split makes a usage begin at a time, and gives its index.
func (c *cores) split(t float64) int {
	i, found := slices.BinarySearchFunc(c.usage, t, func(u usage, t float64) int { return cmp.Compare(u.from, t) })
	if !found {
		u := usage{from: t}
		if i > 0 {
			u.busy = c.usage[i-1].busy
		}
		c.usage = slices.Insert(c.usage, i, u)
	}
	return i
}

// end is the end of usage i.
func (c *cores) end(i int) float64 {
	if i+1 < len(c.usage) {
		return c.usage[i+1].from
	}
	return math.Inf(1)
}

// run keeps so many cores busy from a time on, until it has had them for so many seconds.
func (c *cores) run(from, seconds, need float64) (end float64) {
	if c == nil || need <= 0 {
		return from + seconds
	}
	need = min(need, c.count)
	left := need*seconds + c.stolen
	c.stolen = 0
	for i := c.split(from); ; i++ {
		u := c.usage[i]
		rate := max(0, min(need, c.count-u.busy))
		if end = u.from + left/rate; rate > 0 && end <= c.end(i) {
			if c.split(end) > i {
				c.usage[i].busy += rate
			}
			return end
		}
		left -= rate * (c.end(i) - u.from)
		c.usage[i].busy += rate
	}
}

// copy runs on one core for so long, from a time on. The system gives it a core at once: what no core is idle for, it takes
// from launches.
func (c *cores) copy(from, seconds float64) {
	if c == nil || seconds <= 0 {
		return
	}
	first, end := c.split(from), c.split(from+seconds)
	for i := first; i < end; i++ {
		idle := max(0, min(1, c.count-c.usage[i].busy))
		c.usage[i].busy += idle
		c.stolen += (1 - idle) * (c.usage[i+1].from - c.usage[i].from)
	}
}

// forget forgets what ended before a time from which on everything begins.
func (c *cores) forget(before float64) {
	if c == nil || len(c.usage) == 0 {
		return
	}
	c.usage = slices.Delete(c.usage, 0, c.split(before))
}

// turn is a device's use of the cores. The zero value shares nothing.
type turn struct {
	cores *cores
	need  float64
}

// run is the end of so much work that begins at a time.
func (t turn) run(from, seconds float64) float64 { return t.cores.run(from, seconds, t.need) }
