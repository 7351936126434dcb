package ranks

import "github.com/berth-ml/berth/engine/device"

// Transport carries messages between ranks. Messages from one rank to another with one
// tag arrive in the order of their Sends. Any goroutine may use it. Once an operation has
// failed, all that are open fail, and so do later ones. Operations end in any order, so a
// [device.Fence], which lets the latest event of a queue stand for earlier ones, must not
// have their events: see [Line].
type Transport interface {
	// Rank is the number of this rank, from 0 on, and Size that of all ranks.
	Rank() int
	Size() int
	// Send sends bytes to another rank. They must stay as they are until the event.
	Send(to int, tag Tag, b []byte) device.Event
	// Recv receives bytes from another rank, as many as it sends. They must not be used
	// before the event.
	Recv(from int, tag Tag, b []byte) device.Event
	// Fail ends the operations of this rank that are open, and later ones, with an error. Nothing
	// is read from or written to their memory afterwards. The other ranks do not hear of it:
	// Abort tells them.
	Fail(err error)
	// Abort ends all ranks at once, with an exit code.
	Abort(code int)
	// Close ends the transport. All ranks call it, once what they posted has ended.
	Close() error
}

// Runner is a transport that can run work on the thread that carries its messages. Work that
// mostly waits for messages is faster there: nothing is handed from thread to thread.
type Runner interface {
	Transport
	// Run has the thread run work, and its event ends with that. t is the same transport for
	// work alone; while work waits for an event of t, the thread carries all other messages,
	// too. While it does not, they wait: it is to be short.
	Run(work func(t Transport)) device.Event
}

// Tag tells messages from one rank to another apart.
type Tag int32

// The tags.
const (
	TagControl Tag = iota // what ranks tell each other of themselves
	TagReduce             // parts of sums
	TagTensor             // tensors of a step
	TagBench              // messages that are measured
	TagBeat               // signs of life
	TagOrders             // when all stop and save
	TagLend               // variables that ranks ask others for
	TagNews               // losses that are shown while steps run
	TagClose              // a rank closes the transport
)
