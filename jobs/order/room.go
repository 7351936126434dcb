package order

import (
	"cmp"
	"slices"
)

// HostBytes is the most host memory that jobs take at once, in bytes, and how much of it is data. Data that they have in
// common counts once.
func HostBytes(jobs ...Job) (all, data int64) {
	seen := map[string]bool{}
	for i := range jobs {
		j := &jobs[i]
		if all += j.Host; !seen[j.DataID] {
			seen[j.DataID] = true
			data += j.Data
		}
	}
	return all + data, data
}

// Together says whether jobs can be open together in so many bytes of host memory. One alone can, whatever it takes.
func Together(host int64, jobs ...Job) bool {
	all, _ := HostBytes(jobs...)
	return len(jobs) <= 1 || all <= host
}

// Grants say who has host memory, of the jobs that have devices.
type Grants struct {
	Has   []Job  // from the front of the line
	Waits []Wait // those that are not open, and are not to be
}

// Wait is why a job waits for host memory.
type Wait struct {
	Job    Job
	Behind []Job // those that have it
	For    *Job  // one ahead that waits for it, and that this one must not be in the way of; nil: there is none
}

// To says whether a job has host memory.
func (g *Grants) To(number int) bool {
	return slices.ContainsFunc(g.Has, func(j Job) bool { return j.Number == number })
}

// Grant gives host memory to the jobs that have devices, from the front of the line, whoever has it now. One that does not
// fit beside those ahead of it waits for them. Those behind it do not begin before it: they would take what it waits for.
func Grant(host int64, seated []Job) (g Grants) {
	var ahead *Job // the first that waits
	for i := range seated {
		j := &seated[i]
		if w := (Wait{*j, slices.Clone(g.Has), ahead}); !j.Open && ahead != nil {
			g.Waits = append(g.Waits, w)
			continue
		} else if !Together(host, append(w.Behind, *j)...) {
			ahead = cmp.Or(ahead, j)
			if !j.Open {
				g.Waits = append(g.Waits, w)
			}
			continue
		}
		g.Has = append(g.Has, *j)
	}
	return g
}

// Close says which jobs are to be saved and closed, so that those that stay have their host memory. rest are all others that
// are open, the one first that is to be closed last. It returns their indices.
func Close(host int64, stay, rest []Job) (closed []int) {
	stay = slices.Clone(stay)
	for i := range rest {
		if Together(host, append(stay, rest[i])...) {
			stay = append(stay, rest[i])
		} else {
			closed = append(closed, i)
		}
	}
	return closed
}
