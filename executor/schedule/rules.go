package schedule

import "math"

// rule is how a named schedule orders the passes of a worker. A worker that is free
// takes W if one is due, else F if one is ready and not too many microbatches are in
// flight, else B if one is ready.
type rule struct {
	forward bool // there are no other passes
	split   bool // the gradients of weights are a pass of their own
	late    bool // no backward pass may run before the worker's last forward pass
	rounds  bool // stages are dealt to the workers in rounds
	// ahead is the most microbatches of a lane that are at once between F and B.
	ahead func(lanes, lane int) int
}

// rules are the schedules by name.
var rules = map[string]rule{
	"forward":     {forward: true, ahead: anyNumber},
	"gpipe":       {late: true, ahead: anyNumber},
	"1f1b":        {ahead: untilEnd},
	"zb-h1":       {split: true, ahead: untilEnd},
	"interleaved": {rounds: true, ahead: untilEnd},
}

func anyNumber(int, int) int { return math.MaxInt }

// untilEnd allows one microbatch for each lane from this one to the end.
func untilEnd(lanes, lane int) int { return lanes - lane }
