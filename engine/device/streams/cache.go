package streams

import (
	"slices"
	"sync"
)

// cache is the executables of a device, by signature. Its methods are safe for concurrent
// use.
type cache struct {
	mu       sync.Mutex
	compiled map[string]*executable
	planned  map[string]*executable // not compiled yet
	idle     []*executable          // those of compiled that nobody uses, the one used longest ago first
	keep     int                    // most of idle
}

func newCache(keep int) *cache {
	return &cache{compiled: map[string]*executable{}, planned: map[string]*executable{}, keep: keep}
}

// mostPlanned bounds the plans of models that were planned and never loaded.
const mostPlanned = 1 << 9

// count is the number of executables that are compiled.
func (c *cache) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.compiled))
}

// find finds an executable that is compiled, or else planned; nil if there is none.
func (c *cache) find(signature string) (x *executable, compiled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x = c.compiled[signature]; x != nil {
		return x, true
	}
	return c.planned[signature], false
}

// forget forgets all executables.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.compiled)
	clear(c.planned)
	c.idle = nil
}

// use finds an executable for one more user; nil if it is not compiled.
func (c *cache) use(signature string) *executable {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.compiled[signature]
	if x == nil {
		return nil
	}
	if x.users++; x.users == 1 {
		c.idle = slices.DeleteFunc(c.idle, func(i *executable) bool { return i == x })
	}
	return x
}

// add adds an executable, with one user.
func (c *cache) add(x *executable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.users = 1
	c.compiled[x.signature] = x
	delete(c.planned, x.signature)
}

// addPlan keeps an executable that is not compiled.
func (c *cache) addPlan(x *executable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.planned) == mostPlanned {
		clear(c.planned)
	}
	c.planned[x.signature] = x
}

// release ends a use of an executable. Beyond keep, those used longest ago are forgotten.
func (c *cache) release(x *executable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.users--; x.users != 0 {
		return
	}
	c.idle = append(c.idle, x)
	for len(c.idle) > c.keep {
		delete(c.compiled, c.idle[0].signature)
		c.idle = slices.Delete(c.idle, 0, 1)
	}
}
