package schedule

import "slices"

// lane is a run of neighbouring stages of a replica on one worker. They run as one.
type lane struct {
	worker, replica int
	first, last     int   // stages
	index, count    int   // of this lane and of all among the replica's
	turn            int   // workers that the replica's lanes go round more than once; 0 if they do not
	from, to        int   // the replica's microbatches: from to to-1
	before, behind  *lane // nil at the ends of the replica
}

// lanes are the runs of all replicas, in the order of their stages. The spec is
// complete.
func (o Spec) lanes() (all []*lane) {
	for r := range o.Replicas {
		var chain []*lane
		for s, w := range o.Workers[r*o.Stages : (r+1)*o.Stages] {
			if n := len(chain); n > 0 && chain[n-1].worker == w {
				chain[n-1].last = s
				continue
			}
			l := &lane{worker: w, replica: r, first: s, last: s, index: len(chain), from: share(r, o), to: share(r+1, o)}
			if l.index > 0 {
				l.before = chain[l.index-1]
				l.before.behind = l
			}
			chain = append(chain, l)
		}
		around := turn(chain)
		for _, l := range chain {
			l.count, l.turn = len(chain), around
		}
		all = append(all, chain...)
	}
	return all
}

// byReplica cuts a list of lanes into that of each replica.
func byReplica(lanes []*lane) (lists [][]*lane) {
	for len(lanes) > 0 {
		lists = append(lists, lanes[:lanes[0].count])
		lanes = lanes[lanes[0].count:]
	}
	return lists
}

// pass is the work of a lane for a microbatch: F, B or W of all its stages.
type pass struct {
	*lane
	kind       Kind
	microbatch int
}

// appendTo adds the stages' actions to a row: forward up the stages, else down.
func (x pass) appendTo(row []Action) []Action {
	begin := len(row)
	for s := x.first; s <= x.last; s++ {
		row = append(row, Action{s, x.kind, x.microbatch, x.replica})
	}
	if x.kind != Forward {
		slices.Reverse(row[begin:])
	}
	return row
}

// share is a replica's first microbatch. The first replica has the first, however few
// there are.
func share(replica int, o Spec) int {
	before, all := replica, o.Replicas
	if o.Shares != nil {
		before, all = sum(o.Shares[:replica]), sum(o.Shares)
	}
	return (before*o.Microbatches + all - 1) / all
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}

// turn is the number of workers that a replica's lanes go round more than once; 0 if
// they do not.
func turn(chain []*lane) (workers int) {
	seen := map[int]bool{}
	for _, l := range chain {
		seen[l.worker] = true
	}
	workers = len(seen)
	if len(chain) == workers || len(chain)%workers != 0 {
		return 0
	}
	for i, l := range chain {
		if l.worker != chain[i%workers].worker {
			return 0
		}
	}
	return workers
}
