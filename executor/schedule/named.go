package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/internal/units"
)

// Names lists the names that [New] knows, in order.
func Names() []string {
	var names []string
	for n := range rules {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// TrainingNames lists the names of schedules with a backward pass.
func TrainingNames() []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return rules[name].forward })
}

// Splits reports whether the schedules of a name have W actions.
func Splits(name string) bool { return rules[name].split }

// The bounds of the schedules that [New] makes. A plan lists the launches of every
// microbatch, with their tensors: tens of kilobytes and of microseconds each.
const (
	mostCells        = 1 << 16 // stages times microbatches
	mostMicrobatches = 1 << 12 // planning a small GPT takes seconds then; in limited memory 15 s of CPU and 0.7 GB
)

// New makes the schedule of a name:
//
//   - gpipe runs every forward pass, then every backward pass. Every stage has all
//     microbatches in flight at once. Huang et al., "GPipe", 2019.
//   - 1f1b alternates forward and backward passes as soon as the last stage has its
//     first microbatch. Its bubble is that of gpipe, but a stage has at most as many
//     microbatches in flight as there are stages from it to the end. Narayanan et
//     al., "PipeDream", 2019: the flushing variant.
//   - interleaved is 1f1b for several stages on a worker, one from each of several
//     rounds over the workers: with v rounds, the bubble shrinks to 1/v. Narayanan
//     et al., "Efficient Large-Scale Language Model Training", 2021.
//   - zb-h1 is 1f1b with the backward pass cut in two, B for the stage before and W
//     for the stage's own weights. Stage s does W of a microbatch after B of the s-th
//     one behind it, so that W fills the bubble at the end. No stage has more
//     microbatches in flight than the first one of 1f1b.
//     Qi et al., "Zero Bubble Pipeline Parallelism", 2023.
//   - forward has no backward pass: evaluation and prediction.
//
// Neighbouring stages on one worker run as if they were one.
//
// Stages and microbatches are at least 1, and not more than a step can have
// ([ErrInvalid]).
func New(o Spec) (Schedule, error) {
	if err := o.Check(); err != nil {
		return Schedule{}, err
	}
	o = o.complete()
	s := Schedule{Name: o.Name, Stages: o.Stages, Microbatches: o.Microbatches, Replicas: o.Replicas, Workers: o.Workers}
	s.Rows = make([][]Action, slices.Max(o.Workers)+1)
	rule, lanes := rules[o.Name], o.lanes()
	add := func(x pass) { s.Rows[x.worker] = x.appendTo(s.Rows[x.worker]) }
	if passes, ok := rule.inRounds(lanes); ok {
		for _, x := range passes {
			add(x)
		}
	} else {
		newGreedy(rule, lanes, len(s.Rows)).run(add)
	}
	for i, w := range s.Workers {
		s.Rows[w] = append(s.Rows[w], Action{Stage: i % s.Stages, Kind: Update, Replica: i / s.Stages})
	}
	return s, nil
}

// Check is the error of [New], without making the schedule.
func (o Spec) Check() error {
	if _, ok := rules[o.Name]; !ok {
		return fmt.Errorf("%w %q: choose one of %s", ErrUnknown, o.Name, strings.Join(Names(), ", "))
	}
	replicas := max(1, o.Replicas)
	err := checkSizes(o.Stages, o.Microbatches, replicas)
	switch {
	case err != nil:
		return err
	case o.Replicas < 0:
		return sizeError(fmt.Sprintf("%d replicas: use 1, or more", o.Replicas))
	case o.Shares != nil && (len(o.Shares) != replicas || slices.Min(o.Shares) < 1):
		return sizeError(fmt.Sprintf("there are %d shares of microbatches for %d replicas: give one for each, of at least 1", len(o.Shares), replicas))
	case o.Workers != nil && (len(o.Workers) != o.Stages*replicas || slices.Min(o.Workers) < 0):
		return sizeError(fmt.Sprintf("there are %d workers for %d stages: give one, from 0 on, for each stage of each replica", len(o.Workers), o.Stages*replicas))
	}
	return nil
}

// checkSizes refuses numbers that no step can have.
func checkSizes(stages, microbatches, replicas int) error {
	switch {
	case stages < 1 || microbatches < 1 || replicas < 1:
		return sizeError(fmt.Sprintf("%s and %s: use at least 1 of each", units.Count(stages, "stage"), units.Count(microbatches, "microbatch")))
	case stages > mostCells/replicas:
		return sizeError(fmt.Sprintf("%d stages are too many: use at most %d", stages, mostCells/replicas))
	}
	if most := min(mostMicrobatches, mostCells/stages); microbatches > most {
		return sizeError(fmt.Sprintf("%s are too many for a step on %s: use at most %d, and larger ones",
			units.Count(microbatches, "microbatch"), units.Count(stages, "stage"), most))
	}
	return nil
}

// complete fills in defaults.
func (o Spec) complete() Spec {
	o.Replicas = max(1, o.Replicas)
	if o.Workers == nil {
		o.Workers = upTo(o.Stages * o.Replicas)
	}
	return o
}

// sizeError is an ErrInvalid about numbers of stages, microbatches or workers.
type sizeError string

func (e sizeError) Error() string { return string(e) }
func (e sizeError) Unwrap() error { return ErrInvalid }

// InFlight foretells, by stage, [Schedule.InFlight] of the schedule that [New] would make.
// It may be a little more where a worker has stages that are not neighbours. The name
// must be known.
func (o Spec) InFlight(last Kind) []int {
	most := make([]int, o.Stages)
	r := rules[o.Name]
	lanes := o.complete().lanes()
	inRounds := r.deals(lanes)
	for _, l := range lanes {
		n := 1
		if !r.forward && (last == Backward || r.split) {
			n = r.inFlight(l, last, inRounds)
		}
		for s := l.first; s <= l.last; s++ {
			most[s] = max(most[s], n)
		}
	}
	return most
}

// inFlight is InFlight of a lane.
func (r rule) inFlight(l *lane, last Kind, inRounds bool) int {
	most := r.ahead(l.count, l.index)
	if workers := l.turn; inRounds {
		most = mostInRounds(workers, l.count/workers, l.index%workers, l.index/workers)
	}
	if last == Weights {
		most += l.index // see greedy.may
	}
	return min(l.to-l.from, most)
}
