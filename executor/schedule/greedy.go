package schedule

// greedy plays the passes of lanes as a rule has them, with unit times: 1 for F and
// W, and 2 for a B that includes W.
type greedy struct {
	rule  rule
	of    [][]*progress // by worker
	by    map[*lane]*progress
	until []int               // by worker: when it is free
	wake  [mostTime + 1][]int // by time, modulo its length: workers that may have something to do then
}

// mostTime is the longest time of a pass.
const mostTime = 2

// progress records the passes that a lane has begun.
type progress struct {
	*lane
	ends map[Kind][]int // of each pass, in microbatch order: when it ends
}

func newGreedy(r rule, lanes []*lane, workers int) *greedy {
	q := &greedy{rule: r, of: make([][]*progress, workers), by: map[*lane]*progress{}, until: make([]int, workers)}
	for _, l := range lanes {
		p := &progress{l, map[Kind][]int{}}
		q.by[l] = p
		q.of[l.worker] = append(q.of[l.worker], p)
	}
	q.wake[0] = upTo(workers)
	return q
}

// run calls do with every pass, in an order that each worker can follow.
func (q *greedy) run(do func(pass)) {
	for now, idle := 0, 0; idle <= mostTime; now++ {
		list := &q.wake[now%len(q.wake)]
		woken := *list
		*list = nil
		if idle++; len(woken) > 0 {
			idle = 0
		}
		for _, w := range woken {
			if q.until[w] > now {
				continue
			}
			if x, ok := q.choose(w, now); ok {
				q.begin(x, now)
				do(x)
			}
		}
	}
}

// begin records a pass, and which passes may go on when it ends.
func (q *greedy) begin(x pass, now int) {
	end := now + 1
	if x.kind == Backward && !q.rule.split {
		end = now + 2
	}
	p := q.by[x.lane]
	p.ends[x.kind] = append(p.ends[x.kind], end)
	q.until[x.worker] = end
	list := &q.wake[end%len(q.wake)]
	*list = append(*list, x.worker)
	for _, l := range []*lane{x.before, x.behind} {
		if l != nil {
			*list = append(*list, l.worker)
		}
	}
}

// choose finds the pass that a free worker begins: of the first kind that has one,
// that of the lowest microbatch.
func (q *greedy) choose(w, now int) (best pass, ok bool) {
	for _, k := range []Kind{Weights, Forward, Backward} {
		for _, p := range q.of[w] {
			x := pass{p.lane, k, p.from + len(p.ends[k])}
			if x.microbatch < p.to && q.may(p, x, now) && (!ok || x.microbatch < best.microbatch) {
				best, ok = x, true
			}
		}
		if ok {
			return best, true
		}
	}
	return best, false
}

// may reports whether a lane's next pass of a kind can begin now.
func (q *greedy) may(p *progress, x pass, now int) bool {
	switch x.kind {
	case Forward:
		inFlight := len(p.ends[Forward]) - len(p.ends[Backward])
		if !q.rule.forward && inFlight >= q.rule.ahead(p.count, p.index) {
			return false
		}
		return p.before == nil || q.by[p.before].ended(Forward, x.microbatch, now)
	case Backward:
		if q.rule.forward || q.rule.late && !q.allForward(x.worker) {
			return false
		}
		return p.ended(Forward, x.microbatch, now) && (p.behind == nil || q.by[p.behind].ended(Backward, x.microbatch, now))
	}
	// W is due once B of as many later microbatches has ended as there are lanes before
	// this one, or B of all: those lanes get their B sooner, and W fills the gap at the
	// end.
	return q.rule.split && p.ended(Backward, min(x.microbatch+p.index, p.to-1), now)
}

// ended reports whether a pass has ended.
func (p *progress) ended(k Kind, microbatch, now int) bool {
	i := microbatch - p.from
	return i < len(p.ends[k]) && p.ends[k][i] <= now
}

// allForward reports whether a worker has begun all its forward passes.
func (q *greedy) allForward(w int) bool {
	for _, p := range q.of[w] {
		if len(p.ends[Forward]) < p.to-p.from {
			return false
		}
	}
	return true
}
