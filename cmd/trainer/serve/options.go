package serve

import (
	"fmt"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/units"
)

// OpenOptions describes a server. A zero field means its default.
type OpenOptions struct {
	Config  *configs.Config // of the run; percentages of device memory in it do not hold
	Weights berth.Weights   // which weights to answer with
	Service berth.ServeOptions
	Limits  Limits

	// Follow is the pause between two looks for a newer checkpoint, or a better one with
	// Weights.Best. Default 2 s; below 0 it never looks. Weights of an ID or of a file stay.
	Follow time.Duration

	// Log takes a line for each event that is worth one, from any goroutine. Nil: none.
	Log func(text string)

	Faults []fault.Fault // operations of the devices that go wrong, for drills
}

// Limits bound requests. A zero field means its default.
type Limits struct {
	Requests int           // that are handled at once; default 1024
	Body     int64         // bytes of a request; default 4 MiB
	Samples  int           // of a request; default 1024
	Tokens   int           // that a text may get; default 4096
	Answers  int64         // bytes of memory that the answers of all requests to /predict take; default 1 GiB
	Time     time.Duration // from a request to its answer, unless the request gives less; default 30 s
	Client   time.Duration // that a client has to send its body, and to read each piece of an answer; default 30 s
}

// ErrOptions is returned by Open for options that no server can have.
var ErrOptions = berth.ErrOptions

// fits refuses a limit that has no room for one answer of so many bytes.
func (l *Limits) fits(one int64) error {
	if need := answerBytes(1, one); need > l.Answers {
		return fmt.Errorf("%w: the answers of all requests may take %s of memory, and one takes %s: allow more (--max-answers)", ErrOptions, units.Bytes(l.Answers), units.Bytes(need))
	}
	return nil
}

// withDefaults gives zero fields their defaults, and refuses what cannot be.
func (o OpenOptions) withDefaults() (OpenOptions, error) {
	l := &o.Limits
	if o.Config == nil {
		return o, fmt.Errorf("%w: OpenOptions.Config is nil: give the run's config", ErrOptions)
	}
	if l.Requests < 0 || l.Body < 0 || l.Samples < 0 || l.Tokens < 0 || l.Answers < 0 || l.Time < 0 || l.Client < 0 {
		return o, fmt.Errorf("%w: a limit is below 0: give a number above 0, or 0 for the default", ErrOptions)
	}
	standard(&l.Requests, 1024)
	standard(&l.Body, 4<<20)
	standard(&l.Samples, 1024)
	standard(&l.Tokens, 4096)
	standard(&l.Answers, 1<<30)
	standard(&l.Time, 30*time.Second)
	standard(&l.Client, 30*time.Second)
	standard(&o.Follow, 2*time.Second)
	o.Service.AtOnce = true // nobody else has the devices
	if o.Log == nil {
		o.Log = func(string) {}
	}
	return o, nil
}

// standard gives a zero field its default.
func standard[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
