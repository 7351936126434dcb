package cl

import (
	"errors"
	"sync"
)

// context is an open device of a driver. Devices of the kind that share it count
// their uses.
type context struct {
	of     found
	handle uintptr

	mu   sync.Mutex
	uses int
	idle []*lane // for reuse
	all  []*lane
}

// lane is a command queue of the driver, and a caller. One goroutine at a time uses
// it.
type lane struct {
	*caller
	queue uintptr
	host  []byte // for bytes on their way through the host; nil before the first time
}

// pieceBytes is the size of the pieces that go by way of the host.
const pieceBytes = 1 << 20

// piece is host memory for a piece.
func (l *lane) piece() []byte {
	if l.host == nil {
		l.host = make([]byte, pieceBytes)
	}
	return l.host
}

// openContext opens a device, for one use.
func openContext(d found) (*context, error) {
	defer keepSignals()()
	c := &context{of: d, uses: 1}
	to, id := c.caller(), d.handle
	var err error
	c.handle, err = to.create(createContext, 0, 1, at(to, &id), 0, 0)
	return c, err
}

// share adds a use.
func (c *context) share() *context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses++
	return c
}

// caller calls the device's driver.
func (c *context) caller() *caller { return &caller{driver: c.of.driver, name: c.of.platform} }

// lane is a lane that nobody uses. Give it back.
func (c *context) lane() (*lane, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		l := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return l, nil
	}
	defer keepSignals()()
	to := c.caller()
	queue, err := to.create(createCommandQueue, c.handle, c.of.handle, 0)
	if err != nil {
		return nil, err
	}
	l := &lane{caller: to, queue: queue}
	c.all = append(c.all, l)
	return l, nil
}

func (c *context) giveBack(l *lane) {
	c.mu.Lock()
	c.idle = append(c.idle, l)
	c.mu.Unlock()
}

// write copies to the start of an object.
func (c *context) write(object uintptr, data []byte) error {
	l, err := c.lane()
	if err != nil {
		return err
	}
	defer c.giveBack(l)
	return l.call(enqueueWriteBuffer, l.queue, object, 1, 0, uintptr(len(data)), at(l.caller, &data[0]), 0, 0, 0)
}

// close ends a use. After the last one, it ends the device, whose lanes nobody uses.
func (c *context) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses--; c.uses > 0 {
		return nil
	}
	to := c.caller()
	var errs []error
	for _, l := range c.all {
		errs = append(errs, to.call(releaseCommandQueue, l.queue))
	}
	return errors.Join(append(errs, to.call(releaseContext, c.handle))...)
}
