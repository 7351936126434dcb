package order

import "slices"

// shares counts devices while [Arrange] goes through the line: which kind of them
// is left, and who has the others.
type shares struct {
	total map[string]int
	free  map[string]int
	left  int              // the sum of free
	takes map[string][]int // the numbers of the jobs that took some, by kind
	waits map[string]bool  // kinds that an overdue job waits for
}

func newShares(devices []Device) *shares {
	s := &shares{
		total: map[string]int{}, free: map[string]int{}, left: len(devices),
		takes: map[string][]int{}, waits: map[string]bool{},
	}
	for _, d := range devices {
		s.total[d.Kind]++
		s.free[d.Kind]++
	}
	return s
}

// Fits reports whether there are enough devices for a job that has them all to itself.
func Fits(needs []Need, devices []Device) bool {
	return newShares(devices).wait(&Job{Needs: needs}).Lacks.Count == 0
}

// take gives the job all that it needs, or nothing.
func (s *shares) take(j *Job) bool {
	if slices.ContainsFunc(j.Needs, s.short) {
		return false
	}
	for _, n := range j.Needs {
		s.free[n.Kind] -= n.Count
		s.left -= n.Count
		s.takes[n.Kind] = append(s.takes[n.Kind], j.Number)
	}
	return true
}

func (s *shares) short(n Need) bool { return s.free[n.Kind] < n.Count }

// wait says why the job gets nothing now. Jobs that wait for the same ones share a
// slice, so that a long line costs no more than its length.
func (s *shares) wait(j *Job) (p Place) {
	for _, n := range j.Needs {
		switch takes := slices.Clip(s.takes[n.Kind]); {
		case s.total[n.Kind] < n.Count:
			return Place{Lacks: n}
		case !s.short(n):
		case p.Behind == nil:
			p.Behind = takes
		default:
			p.Behind = union(p.Behind, takes)
		}
	}
	return p
}

// union is a and those of b that a does not have.
func union(a, b []int) []int {
	for _, n := range b {
		if !slices.Contains(a, n) {
			a = append(a, n)
		}
	}
	return a
}

// await notes that an overdue job waits for devices, and so whom it must not be kept from.
func (s *shares) await(j *Job) {
	for _, n := range j.Needs {
		s.waits[n.Kind] = true
	}
}

// awaited says whether an overdue job ahead waits for devices of a kind that j has.
func (s *shares) awaited(j *Job) bool {
	return slices.ContainsFunc(j.Needs, func(n Need) bool { return s.waits[n.Kind] })
}
