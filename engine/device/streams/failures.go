package streams

import "slices"

// failures are the copies of a queue that have failed or were skipped, and can be
// repeated. Their buffers stay pinned. The queue's lock guards them.
type failures []failure

// failure is one of them.
type failure struct {
	seq  uint64
	copy command
}

// repeatable reports whether a command that fails can be repeated.
func (c *command) repeatable() bool {
	return c.op == opCopyIn || c.op == opCopyOut || c.op == opCopyPeer
}

// take is a command that failed. It is kept no longer.
func (f *failures) take(seq uint64) (command, bool) {
	i := slices.IndexFunc(*f, func(x failure) bool { return x.seq == seq })
	if i < 0 {
		return command{}, false
	}
	c := (*f)[i].copy
	*f = slices.Delete(*f, i, i+1)
	return c, true
}

// release releases commands that nobody can repeat any more.
func (f failures) release() {
	for i := range f {
		f[i].copy.release()
	}
}
