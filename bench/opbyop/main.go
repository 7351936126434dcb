package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/executor/eager"
)

// measured is the time of a call, or of a step.
type measured struct {
	What     string  `json:"what"`
	Elements int     `json:"elements,omitempty"`
	MedianUS float64 `json:"median_us"`
	MinUS    float64 `json:"min_us"`
	Blocks   int     `json:"blocks"` // that were timed
}

// bench is a loop to measure. block runs a part of it that takes some milliseconds, to its
// end; it is calls calls, or steps.
type bench struct {
	block func() error
	calls int
	close func() error
}

// benches make loops, by name.
var benches = map[string]func(c *berth.OpByOp, elements int) bench{
	"add": newAdds, "add apart": newAddsApart, "autograd": newAutograd,
	"mlp": newTaped, "mlp compiled": newCompiled,
}

func main() {
	what := flag.String("what", "add", "what to measure: "+strings.Join(slices.Sorted(maps.Keys(benches)), ", "))
	elements := flag.Int("elements", 16, "elements of a tensor of add and autograd")
	seconds := flag.Float64("seconds", 1, "time to measure for")
	threads := flag.Int("threads", 2, "threads of the device")
	flag.Parse()
	m, err := run(*what, *elements, *threads, *seconds)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "opbyop:", err)
		os.Exit(1)
	}
}

// run measures on a device of its own.
func run(what string, elements, threads int, seconds float64) (m measured, err error) {
	open := benches[what]
	if open == nil || elements < 1 || !(seconds > 0) {
		return m, fmt.Errorf("nothing to measure: -what is one of %s, -elements at least 1, -seconds above 0", strings.Join(slices.Sorted(maps.Keys(benches)), ", "))
	}
	devices, err := berth.OpenDevices(configs.Devices{Use: "cpu", Threads: threads}, berth.DevicesOptions{})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, devices.Close()) }()
	c, err := devices.OpByOp(eager.ContextOptions{})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	b := open(c, elements)
	defer func() { err = errors.Join(err, b.close()) }()
	times, err := b.measure(seconds)
	if err != nil {
		return m, err
	}
	return measured{What: what, Elements: elements, MedianUS: times[len(times)/2], MinUS: times[0], Blocks: len(times)}, nil
}

// measure is the sorted times of a call in microseconds, each the mean of a block, after a
// warm-up of a fifth of the time.
func (b *bench) measure(seconds float64) (times []float64, err error) {
	began := time.Now()
	for time.Since(began).Seconds() < 1.2*seconds || times == nil {
		warm := time.Since(began).Seconds() < 0.2*seconds
		before := time.Now()
		if err := b.block(); err != nil {
			return nil, err
		}
		if !warm {
			times = append(times, float64(time.Since(before).Nanoseconds())/1e3/float64(b.calls))
		}
	}
	slices.Sort(times)
	return times, nil
}
