package schedule

// inRounds lists the passes of lanes that are dealt to workers in several rounds, in
// the order of the interleaved schedule. ok is false if the lanes are not, or if
// replicas share a worker.
//
// A worker takes as many microbatches as there are workers through its first lane,
// then the same through its next one; then the next microbatches. Backward passes
// go through the lanes in the other order. Without enough microbatches for the last
// turn, its missing ones are left out.
func (r rule) inRounds(lanes []*lane) (passes []pass, ok bool) {
	if !r.deals(lanes) {
		return nil, false
	}
	for _, chain := range byReplica(lanes) {
		for i := range chain[0].turn {
			passes = append(passes, interleave(chain, chain[0].turn, i)...)
		}
	}
	return passes, true
}

// deals reports whether the rule runs lanes in rounds.
func (r rule) deals(lanes []*lane) bool {
	used := map[int]bool{}
	for _, chain := range byReplica(lanes) {
		workers := chain[0].turn
		if !r.rounds || workers == 0 {
			return false
		}
		for _, l := range chain[:workers] {
			if used[l.worker] {
				return false
			}
			used[l.worker] = true
		}
	}
	return true
}

// interleave lists the passes of a worker in their order.
func interleave(chain []*lane, workers, worker int) (passes []pass) {
	l := chain[worker]
	lanes := len(chain) / workers // of each worker
	turns := (l.to - l.from + workers - 1) / workers
	all := turns * len(chain)
	add := func(k Kind, i int) { // the worker's i-th pass of a kind
		lane, m := i%len(chain)/workers, l.from+i/len(chain)*workers+i%workers
		if k == Backward {
			lane = lanes - 1 - lane
		}
		if m < l.to {
			passes = append(passes, pass{chain[lane*workers+worker], k, m})
		}
	}
	ahead := min(all, aheadInRounds(workers, lanes, worker))
	for i := range ahead {
		add(Forward, i)
	}
	for i := range all {
		if ahead+i < all {
			add(Forward, ahead+i)
		}
		add(Backward, i)
	}
	return passes
}

// mostInRounds is the most microbatches at once between F and B of a worker's lane,
// given how many lanes each worker has.
//
// Just before its i-th backward pass, a worker has done ahead+i+1 forward passes of
// all lanes. From turn to turn, the numbers of a lane differ by the same.
func mostInRounds(workers, lanes, worker, lane int) (most int) {
	turn := workers * lanes
	of := func(passes, place int) int { // of so many passes, those of the lane that is place-th in each turn
		return passes/turn*workers + min(max(0, passes%turn-place*workers), workers)
	}
	ahead := aheadInRounds(workers, lanes, worker)
	for i := range 2 * turn {
		most = max(most, of(ahead+i+1, lane)-of(i, lanes-1-lane))
	}
	return most
}

// aheadInRounds is the number of a worker's forward passes before its first
// backward pass, less one.
func aheadInRounds(workers, lanes, worker int) int {
	return 2*(workers-1-worker) + (lanes-1)*workers
}
