package eager

import (
	"reflect"

	"github.com/berth-ml/berth/engine/graph"
)

// cacheSize is the most entries that a cache keeps: a program may make ops without end,
// such as a multiplication by each new learning rate.
const cacheSize = 2048

// cache finds the entries of a lane. A full cache drops all of them. The home's mu guards
// it.
type cache struct {
	entries map[string]*entry       // by appendKey
	quick   map[quickKey]*entry     // those of usual calls
	types   map[reflect.Type]*attrs // of ops that were called
	last    *entry                  // of the last usual call
}

func newCache() cache {
	return cache{entries: map[string]*entry{}, quick: map[quickKey]*entry{}, types: map[reflect.Type]*attrs{}}
}

// usual finds the entry of a usual call that was made before; nil if there is none. It
// first tries the one that came after the last call the last time: programs repeat their
// calls.
func (c *cache) usual(op graph.Op, args []Tensor) *entry {
	before := c.last
	if before != nil {
		if e := before.next; e != nil && e.is(op, args) {
			c.last = e
			return e
		}
	}
	k, ok := c.quickKey(op, args)
	if !ok {
		return nil
	}
	e := c.quick[k]
	if e != nil {
		if c.last = e; before != nil {
			before.next = e
		}
	}
	return e
}

// add adds an entry. The ones that are dropped for it are the caller's to release.
func (c *cache) add(key string, e *entry) (dropped []*entry) {
	if len(c.entries) >= cacheSize {
		dropped = c.drop()
	}
	c.entries[key] = e
	return dropped
}

// drop empties the cache. It lists the entries that no queued call uses, to be released;
// the others are released after their calls.
func (c *cache) drop() (unused []*entry) {
	for _, e := range c.entries {
		e.dropped = true
		if e.pending == 0 {
			unused = append(unused, e)
		}
	}
	clear(c.entries)
	clear(c.quick)
	c.last = nil
	return unused
}
