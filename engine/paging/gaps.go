package paging

// gap is the launches between two uses of an object that has contents
// throughout. Whoever takes its memory there must bring it back.
type gap struct {
	object int
	first  int  // first launch inside
	count  int  // launches inside, at least 1; the last may be in the next step
	loads  bool // the use that ends it reads
	// write is the launch that wrote the contents last, if they are nowhere else
	// until they are copied out; -1 where the host has them from the start.
	write int
}

// gaps lists the gaps of one step, by object and then by time. Objects whose
// contents end, are fed anew or are overwritten unread have no gap there: they
// need no memory.
func (t *Trace) gaps() []gap {
	uses := make([][]event, len(t.Objects))
	for i := range t.Launches {
		l := &t.Launches[i]
		for _, u := range l.Uses {
			uses[u.Object] = append(uses[u.Object], event{i, u, false})
		}
		for _, o := range l.Frees {
			if n := len(uses[o]); n > 0 {
				uses[o][n-1].ends = true
			}
		}
	}
	var gaps []gap
	for o, events := range uses {
		gaps = append(gaps, t.gapsOf(o, events)...)
	}
	return gaps
}

// event is a use of an object by a launch.
type event struct {
	launch int
	Use
	ends bool // the contents end with it, or between it and the next use
}

// gapsOf lists the gaps between the uses of one object.
func (t *Trace) gapsOf(object int, uses []event) (gaps []gap) {
	o := t.Objects[object]
	write := -1
	for _, u := range uses {
		if u.Write && o.Lasting {
			write = u.launch // the last one of the step before
		}
	}
	for i, u := range uses {
		if u.Write {
			write = u.launch
		}
		next, end := uses[(i+1)%len(uses)], 0
		if i == len(uses)-1 {
			end = len(t.Launches)
		}
		g := gap{object: object, first: u.launch + 1, count: end + next.launch - u.launch - 1, loads: next.Read, write: write}
		over := u.ends || !o.Lasting && !next.Read || o.Fed && end > 0
		if g.count > 0 && !over {
			gaps = append(gaps, g)
		}
		if u.ends {
			write = -1
		}
	}
	return gaps
}
