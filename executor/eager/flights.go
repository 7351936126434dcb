package eager

// flights are the calls of a lane that were launched and have not ended, in order.
type flights struct {
	list   []*work
	first  int // index of the oldest in list; nil before it
	unsure int // those that can fail by their data
}

func (f *flights) count() int    { return len(f.list) - f.first }
func (f *flights) oldest() *work { return f.list[f.first] }
func (f *flights) newest() *work { return f.list[len(f.list)-1] }

// add adds the newest.
func (f *flights) add(w *work) {
	if f.first > len(f.list)/2 { // each call is moved about once
		n := copy(f.list, f.list[f.first:])
		clear(f.list[n:])
		f.list, f.first = f.list[:n], 0
	}
	f.list = append(f.list, w)
	if !w.entry.sure {
		f.unsure++
	}
}

// take removes the oldest and returns it.
func (f *flights) take() *work {
	w := f.list[f.first]
	f.list[f.first] = nil
	if f.first++; f.first == len(f.list) {
		f.list, f.first = f.list[:0], 0
	}
	if !w.entry.sure {
		f.unsure--
	}
	return w
}
