package serve

import (
	"fmt"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
)

// OpenOptions describes a server. A zero field means its default.
type OpenOptions struct {
	Config  *configs.Config // of the run
	Weights berth.Weights   // which weights to answer with
	Stored  string          // how they lie in memory: see [berth.TrainedOptions]

	// Adapters are runs with an adapter of one base, in place of Config and Weights: a request names one of them, or
	// none and gets the base's answer. The devices are those of the first one's config.
	Adapters []berth.Adapter

	Service berth.ServeOptions
	Limits  Limits

	// Follow is the pause between two looks for the checkpoint that Weights chooses: a better
	// one, or a newer one with Weights.Last or where none has the metric. Default 2 s; below 0
	// it never looks. Weights of an ID or of a file stay.
	Follow time.Duration

	// Hosts are names under which requests may come, as in https://NAME/. Always known are
	// localhost, loopback addresses and the address that a client has connected to. Pages of
	// these sites may ask, too.
	Hosts []string

	// ReloadToken lets clients of other machines ask for a reload. Empty: none may.
	ReloadToken string

	// Log takes a line for each event that is worth one, from any goroutine. Nil: none.
	Log func(text string)

	Faults []fault.Fault // operations of the devices that go wrong, for drills
}

// Limits bound requests. A zero field means its default.
type Limits struct {
	Requests int           // that are handled at once; default 1024. Twice as many connections may be open
	Body     int64         // bytes of a request; default 4 MiB
	Samples  int           // of a request; default 1024
	Tokens   int           // that a text may get; default 4096
	Memory   int64         // bytes that all requests take together, with all that is made of them; default half of what the process can still take once the weights are loaded
	Share    int           // percent of Requests, Memory, connections, texts and the queue that one client address may take; default 50
	Time     time.Duration // from a request to its answer, unless the request gives less; default 30 s
	Client   time.Duration // that a client has to send, or to read, 64 KiB or the rest; default 10 s
}

// ErrOptions is returned by Open for options that no server can have.
var ErrOptions = berth.ErrOptions

// withDefaults gives zero fields their defaults, and refuses what cannot be.
func (o OpenOptions) withDefaults() (OpenOptions, error) {
	l := &o.Limits
	if o.Adapters != nil {
		if len(o.Adapters) == 0 || o.Adapters[0].Config == nil {
			return o, fmt.Errorf("%w: OpenOptions.Adapters needs an adapter with the config of its run, or leave it out", ErrOptions)
		}
		if o.Config != nil || o.Weights != (berth.Weights{}) {
			return o, fmt.Errorf("%w: OpenOptions.Adapters takes the place of Config and Weights: leave these out", ErrOptions)
		}
		o.Config = o.Adapters[0].Config
	}
	if o.Config == nil {
		return o, fmt.Errorf("%w: OpenOptions.Config is nil: give the run's config", ErrOptions)
	}
	if l.Requests < 0 || l.Body < 0 || l.Samples < 0 || l.Tokens < 0 || l.Memory < 0 || l.Share < 0 || l.Time < 0 || l.Client < 0 {
		return o, fmt.Errorf("%w: a limit is below 0: give a number above 0, or 0 for the default", ErrOptions)
	}
	if l.Share > 100 {
		return o, fmt.Errorf("%w: Limits.Share is %d percent: give a number from 1 to 100, or 0 for the default", ErrOptions, l.Share)
	}
	standard(&l.Requests, 1024)
	standard(&l.Body, 4<<20)
	standard(&l.Samples, 1024)
	standard(&l.Tokens, 4096)
	standard(&l.Share, 50)
	standard(&l.Time, 30*time.Second)
	standard(&l.Client, 10*time.Second)
	standard(&o.Follow, 2*time.Second)
	standard(&o.Service.Queue, 1024)
	standard(&o.Service.Texts, 4)
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
