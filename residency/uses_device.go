package residency

import "github.com/berth-ml/berth/engine/paging"

// deviceUses is the uses of tensors by the launches of a step on one device. A tensor
// is an object there, by number.
type deviceUses struct {
	trace  paging.Trace
	order  *paging.Order
	policy paging.Policy
	index  map[int]int // by object, its index among the uses of the last launch
}

// object adds an object, and returns its number.
func (x *deviceUses) object(name string, bytes int64) int {
	x.trace.Objects = append(x.trace.Objects, paging.Object{Name: name, Bytes: bytes})
	return len(x.trace.Objects) - 1
}

// launch begins the next launch.
func (x *deviceUses) launch(scratch int64) {
	x.trace.Launches = append(x.trace.Launches, paging.Launch{Scratch: scratch})
	x.index = map[int]int{}
}

// last is the newest launch.
func (x *deviceUses) last() *paging.Launch { return &x.trace.Launches[len(x.trace.Launches)-1] }

// use adds a use to the last launch, or to the object's use there.
func (x *deviceUses) use(object int, read, write bool) {
	l := x.last()
	i, again := x.index[object]
	if !again {
		i = len(l.Uses)
		x.index[object] = i
		l.Uses = append(l.Uses, paging.Use{Object: object})
	}
	u := &l.Uses[i]
	u.Read, u.Write = u.Read || read, u.Write || write
}

// free ends an object's contents with the last launch.
func (x *deviceUses) free(object int) {
	l := x.last()
	l.Frees = append(l.Frees, object)
}

// describe ends the list of launches. It tells the objects that outlive the step, and those that come from
// elsewhere in every step: they are read before they are written.
func (x *deviceUses) describe() {
	x.index = nil
	used, freed := make([]bool, len(x.trace.Objects)), make([]bool, len(x.trace.Objects))
	for i := range x.trace.Launches {
		l := &x.trace.Launches[i]
		for _, v := range l.Uses {
			if !used[v.Object] {
				x.trace.Objects[v.Object].Fed = v.Read
			}
			used[v.Object] = true
		}
		for _, o := range l.Frees {
			freed[o] = true
		}
	}
	for i := range x.trace.Objects {
		if o := &x.trace.Objects[i]; !freed[i] {
			o.Lasting, o.Fed = true, false
		}
	}
}
