package planner

import "github.com/berth-ml/berth/internal/stop"

// setUses records the step at which a launch first reads or overwrites each of the
// caller's buffers, and the steps that complete outputs. Steps whose outputs are empty
// do not run.
//
// An output counts as complete only behind all steps that may fail on purpose, and
// behind every step if checked is set: nobody goes on with results of a launch that
// is about to fail.
func (p *Plan) setUses(checked bool) error {
	read, overwritten := make([]bool, len(p.ins)), make([]bool, len(p.ins))
	safe, last := 0, 0 // the first step behind those that may fail, and the last step
	for i := range stop.Each(p.stop, p.Steps) {
		st := &p.Steps[i]
		if st.Empty() {
			continue
		}
		for _, s := range st.reads() {
			if s.Class == Input && !read[s.Index] {
				read[s.Index] = true
				st.Reads = append(st.Reads, s.Index)
			}
		}
		for _, s := range st.Out {
			if j := s.Overwrites(p.Alias); j >= 0 && !overwritten[j] {
				overwritten[j] = true
				st.Overwrites = append(st.Overwrites, j)
			}
		}
		if last = i; checked || st.ends() {
			safe = i
		}
	}
	for i := safe; i < last; i++ {
		st := &p.Steps[i]
		for _, s := range st.Out {
			if s.Class == Output && s.Size > 0 && p.Alias[s.Index] < 0 {
				st.Completes = append(st.Completes, s.Index)
			}
		}
	}
	return nil
}

// Marks lists, per step that completes outputs before the last step, these outputs.
func (p *Plan) Marks() (marks [][]int) {
	for i := range p.Steps {
		if list := p.Steps[i].Completes; len(list) > 0 {
			marks = append(marks, list)
		}
	}
	return marks
}
