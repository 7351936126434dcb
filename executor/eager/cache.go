package eager

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// cacheSize is the most entries that a cache keeps: a program may make ops without end,
// such as a multiplication by each new learning rate.
const cacheSize = 2048

// cache finds the entries of a lane, which owns it. A full cache drops all of them. The lane's mu guards
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

// lookup finds or makes the entry of a call that is none of the usual ones, and counts the call as
// pending. Cancel ends it. It needs mu, which it leaves meanwhile.
func (l *lane) lookup(op graph.Op, args []Tensor, of *era) (*entry, error) {
	var room [192]byte
	key, err := keyOf(room[:0], op, args)
	if err != nil {
		return nil, err
	}
	if e := l.cache.entries[string(key)]; e != nil {
		e.pending++
		return e, nil
	}
	l.mu.Unlock()
	defer l.mu.Lock()
	in := make([]shape.Meta, len(args))
	for i, x := range args {
		in[i] = x.rec.pool.meta
	}
	made, err := newEntry(op, in, l.dev, l.compile, of.ended)
	if err != nil {
		return nil, err
	}
	e, dropped := l.enter(string(key), made, args)
	for _, x := range dropped {
		x.release()
	}
	return e, nil
}

// enter adds an entry to the cache, unless another goroutine has added it meanwhile. It counts a
// call of it as pending.
func (l *lane) enter(key string, made *entry, args []Tensor) (e *entry, dropped []*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e = l.cache.entries[key]; e == nil {
		e = made
		dropped = l.dropFull()
		for _, v := range e.graph.Outputs {
			e.outs = append(e.outs, l.memory.pool(v.Meta, device.Activation))
		}
		dropped = append(dropped, l.cache.add(key, e)...)
		l.cache.addQuick(e, args)
	}
	e.pending++
	return e, dropped
}

// dropFull forgets all entries and pools if there are too many pools. It lists the entries to
// release. It needs mu.
func (l *lane) dropFull() []*entry {
	if !l.memory.full() {
		return nil
	}
	l.memory.drop()
	return l.cache.drop()
}

// empty makes a tensor without contents, with one handle.
func (l *lane) empty(m shape.Meta) (Tensor, error) {
	if m.DType.Size() == 0 {
		return Tensor{}, fmt.Errorf("%v has no element type", m)
	}
	x, dropped, err := l.takeEmpty(m)
	for _, e := range dropped {
		e.release()
	}
	return x, err
}

func (l *lane) takeEmpty(m shape.Meta) (x Tensor, dropped []*entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped = l.dropFull()
	r, err := l.memory.take(l, l.memory.pool(m, device.Activation))
	if err != nil {
		return Tensor{}, dropped, err
	}
	r.refs = 1
	return Tensor{r, r.gen}, dropped, nil
}

// variant finds or compiles an executable of an entry, for a call of that era. Only the
// lane's goroutine calls it.
func (l *lane) variant(e *entry, donated uint64, of *era) (*variant, error) {
	l.mu.Lock()
	v := e.compiled(donated)
	l.mu.Unlock()
	if v != nil {
		return v, nil
	}
	v, err := e.compile(l.dev, donated, of.ended)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := v.exe.Memory().Temporary; n > 0 {
		v.scratch = l.memory.pool(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(n))}, device.Scratch)
	}
	e.exes = append(e.exes, v)
	return v, nil
}

// done ends a queued call of an entry.
func (l *lane) done(e *entry) {
	l.mu.Lock()
	over := e.ended()
	l.mu.Unlock()
	if over {
		e.release()
	}
}

// keyOf is appendKey. A panic of the program's own code is an error: the caller holds mu.
func keyOf(room []byte, op graph.Op, args []Tensor) (key []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(op, panics.Text(r))
		}
	}()
	return appendKey(room, op, args), nil
}

// panicked is the error of an op whose methods panic.
func panicked(op graph.Op, text string) error {
	return fmt.Errorf("%w: the op %T panicked: %s", graph.ErrShape, op, text)
}

// kindOf names an op in an error: by its kind, or by its Go type if Kind panics.
func kindOf(op graph.Op) (kind string) {
	defer func() {
		if recover() != nil {
			kind = fmt.Sprintf("%T", op)
		}
	}()
	return op.Kind()
}

// appendKey appends the identity of a call: the op as graph.OpString prints it, or its
// address, and the metadata of its inputs.
func appendKey(key []byte, op graph.Op, args []Tensor) []byte {
	key = append(key, op.Kind()...)
	if byAddress(op) {
		key = fmt.Appendf(key, "%p", op)
	} else {
		key = fmt.Appendf(key, "%+v", op)
	}
	for _, x := range args {
		m := x.rec.pool.meta
		key = append(key, byte(m.DType))
		key = binary.AppendUvarint(key, uint64(len(m.Shape)))
		for _, d := range m.Shape {
			key = binary.AppendUvarint(key, uint64(d))
		}
	}
	return key
}

// quickArgs is the most arguments of a usual call.
const quickArgs = 4

// quickKey is the identity of a usual call, made without printing.
type quickKey struct {
	op    graph.Op
	signs uint64 // of op's floats: bit i is the sign of the ith one
	args  int
	in    [quickArgs]*pool
}

// attrs describes a type of ops.
type attrs struct {
	plain  bool  // two ops are the same if they and the signs of their floats are equal
	floats []int // fields that are floats
}

// quickKey makes the quick key of a call; ok is false if it has none.
func (c *cache) quickKey(op graph.Op, args []Tensor) (k quickKey, ok bool) {
	t := c.types[reflect.TypeOf(op)]
	if t == nil || !t.plain || len(args) > len(k.in) {
		return k, false
	}
	k.op, k.args, k.signs = op, len(args), signs(op, t.floats)
	for i, x := range args {
		k.in[i] = x.rec.pool
	}
	return k, true
}

// addQuick gives an entry a quick key, if it can have one.
func (c *cache) addQuick(e *entry, args []Tensor) {
	typ := reflect.TypeOf(e.op)
	t := c.types[typ]
	if t == nil {
		t = attrsOf(typ, e.op)
		c.types[typ] = t
	}
	e.quick = t.plain && len(args) <= quickArgs && e.op == e.op // not with NaN in it
	if !e.quick {
		return
	}
	e.floats = t.floats
	e.key = quickKey{op: e.op, args: len(args), signs: signs(e.op, t.floats)}
	for i, x := range args {
		e.key.in[i] = x.rec.pool
	}
	c.quick[e.key] = e
}

// is reports whether a call is the entry's, which has a quick key.
func (e *entry) is(op graph.Op, args []Tensor) bool {
	if len(args) != e.key.args || e.key.op != op || e.floats != nil && signs(op, e.floats) != e.key.signs {
		return false
	}
	for i, x := range args {
		if x.rec.pool != e.key.in[i] {
			return false
		}
	}
	return true
}

// signs is a bit for each float of an op: 0 equals -0.
func signs(op graph.Op, floats []int) (bits uint64) {
	if floats == nil {
		return 0
	}
	v := reflect.ValueOf(op)
	for i, f := range floats {
		if math.Signbit(v.Field(f).Float()) {
			bits |= 1 << i
		}
	}
	return bits
}

// attrsOf describes the type of an op. Values whose attributes are no lists, nor pointers, can be
// compared.
func attrsOf(t reflect.Type, op graph.Op) *attrs {
	if byAddress(op) {
		return &attrs{plain: true}
	}
	if t.Kind() != reflect.Struct {
		return &attrs{plain: isPlain(t)}
	}
	a := &attrs{plain: true}
	for i := range t.NumField() {
		switch f := t.Field(i).Type; {
		case f.Kind() == reflect.Float32 || f.Kind() == reflect.Float64:
			a.floats = append(a.floats, i)
		case !isPlain(f):
			return &attrs{}
		}
	}
	a.plain = len(a.floats) <= 64
	return a
}

// isPlain reports whether equal values of a type print alike. Floats do not: 0 equals
// -0.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Array:
		return isPlain(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !isPlain(f.Type) {
				return false
			}
		}
		return true
	}
	return false
}
