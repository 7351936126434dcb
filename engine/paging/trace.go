package paging

import "fmt"

// Align is the alignment of every block of a device's memory, in bytes. Objects
// and scratch take a multiple of it.
const Align = 64

// Trace is one step of a device, which repeats.
type Trace struct {
	Objects  []Object
	Launches []Launch // in order of submission
}

// Object is a tensor, or a part of one that moves alone.
type Object struct {
	Name  string
	Bytes int64
	// Lasting objects have contents between steps: variables and constants. So
	// does an output that the host may read after the step.
	Lasting bool
	// Fed objects get new contents on the host in every step, before its first
	// launch. The first launch that reads one copies it in.
	Fed bool
}

// Launch is one run of an executable.
type Launch struct {
	Scratch int64 // bytes that the launch needs besides its objects
	Uses    []Use // each object at most once
	Frees   []int // objects whose contents end with the launch
}

// Use is how a launch uses an object. A write without a read leaves nothing of
// the old contents.
type Use struct {
	Object      int // index in Trace.Objects
	Read, Write bool
}

// Rounded is the memory that an object or scratch of so many bytes takes.
func Rounded(bytes int64) int64 { return (bytes + Align - 1) &^ (Align - 1) }

// Lease is the memory that a launch needs: its objects and its scratch.
func (t *Trace) Lease(l *Launch) int64 {
	bytes := Rounded(l.Scratch)
	for _, u := range l.Uses {
		bytes += Rounded(t.Objects[u.Object].Bytes)
	}
	return bytes
}

// Floor is the largest lease. With less memory, the step cannot run.
func (t *Trace) Floor() (bytes int64) {
	for i := range t.Launches {
		bytes = max(bytes, t.Lease(&t.Launches[i]))
	}
	return bytes
}

// Check reports a trace that cannot be a step: indices out of range, an object
// used twice by one launch, or contents that are read before they are written.
func (t *Trace) Check() error {
	whole := make([]bool, len(t.Objects)) // has contents
	for i, o := range t.Objects {
		whole[i] = o.Lasting || o.Fed
	}
	for i := range t.Launches {
		if err := t.checkLaunch(i, whole); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trace) checkLaunch(i int, whole []bool) error {
	l := &t.Launches[i]
	used := map[int]bool{}
	for _, u := range l.Uses {
		switch {
		case u.Object < 0 || u.Object >= len(t.Objects):
			return fmt.Errorf("launch %d uses object %d of %d", i, u.Object, len(t.Objects))
		case used[u.Object]:
			return fmt.Errorf("launch %d uses %s twice: merge the uses", i, t.Objects[u.Object].Name)
		case !u.Read && !u.Write:
			return fmt.Errorf("launch %d neither reads nor writes %s", i, t.Objects[u.Object].Name)
		case u.Read && !whole[u.Object]:
			return fmt.Errorf("launch %d reads %s, which has no contents then", i, t.Objects[u.Object].Name)
		}
		used[u.Object] = true
		whole[u.Object] = true
	}
	for _, o := range l.Frees {
		if o < 0 || o >= len(t.Objects) || t.Objects[o].Lasting {
			return fmt.Errorf("launch %d frees object %d: give one of %d that is not lasting", i, o, len(t.Objects))
		}
		whole[o] = false
	}
	return nil
}
