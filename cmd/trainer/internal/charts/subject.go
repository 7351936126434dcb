package charts

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/internal/edit"
)

// subject is the metrics that share a panel: those of steps, of the training part
// and of the validation part.
type subject struct{ name string }

// onRequest are the fields of boundaries that have a panel only where it is asked
// for.
var onRequest = []string{"samples_per_s", "train_s", "val_s", "samples_seen", "tokens_seen", "device_peak_bytes"}

// first and last are the subjects with a fixed place among the panels.
var first, last = []string{"loss", "accuracy"}, []string{"learning_rate", "grad_norm"}

// SubjectOf is the subject of a field of metrics.jsonl: the name of the panel that it is drawn in.
func SubjectOf(field string) string {
	if slices.Contains(onRequest, field) {
		return field
	}
	for _, part := range []string{"train_", "val_"} {
		if rest, ok := strings.CutPrefix(field, part); ok {
			return rest
		}
	}
	return field
}

// train, val and steps are the curves of a subject in a run; nil where it has none.
// A metric without a part, such as rmse, is of the validation; times, rates and counts are of
// the training.
func (s subject) train(h *history) *curve {
	if slices.Contains(onRequest, s.name) && s.name != "val_s" {
		return h.boundaries[s.name]
	}
	return h.boundaries["train_"+s.name]
}

func (s subject) val(h *history) *curve {
	if c := h.boundaries["val_"+s.name]; c != nil && SubjectOf("val_"+s.name) == s.name {
		return c
	}
	if h.steps[s.name] != nil || slices.Contains(onRequest, s.name) && s.name != "val_s" {
		return nil
	}
	return h.boundaries[s.name]
}

func (s subject) steps(h *history) *curve { return h.steps[s.name] }

// curves are a run's curves of a subject.
func (s subject) curves(h *history) (list []*curve) {
	for _, c := range []*curve{s.steps(h), s.train(h), s.val(h)} {
		if c != nil {
			list = append(list, c)
		}
	}
	return list
}

// subjectsOf are the subjects that runs have, in the order of their panels.
func subjectsOf(runs []*history) (names []string) {
	have := map[string]bool{}
	for _, h := range runs {
		for _, fields := range []map[string]*curve{h.steps, h.boundaries} {
			for field := range fields {
				have[SubjectOf(field)] = true
			}
		}
	}
	return Sorted(have)
}

// Sorted are subjects in the order of their panels.
func Sorted(have map[string]bool) (names []string) {
	place := func(name string) int {
		if i := slices.Index(first, name); i >= 0 {
			return i - len(first)
		}
		return 1 + max(slices.Index(last, name), slices.Index(onRequest, name)+len(last)*min(1, slices.Index(onRequest, name)+1))
	}
	return slices.SortedFunc(maps.Keys(have), func(a, b string) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// chosen are the subjects to draw: those that are asked for, or without a wish the
// usual ones.
func chosen(runs []*history, wanted []string) (list []subject, err error) {
	have := subjectsOf(runs)
	if len(wanted) == 0 {
		for _, name := range have {
			if !slices.Contains(onRequest, name) {
				list = append(list, subject{name})
			}
		}
		return list, nil
	}
	for _, name := range wanted {
		name = SubjectOf(strings.TrimSpace(name))
		if !slices.Contains(have, name) {
			if near := edit.Nearest(name, have, len(name)/2); near != "" {
				return nil, cli.Usagef("--metrics %s: none of these runs has that metric; did you mean %q?", name, near)
			}
			return nil, cli.Usagef("--metrics %s: none of these runs has that metric; expected some of %s", name, strings.Join(have, ","))
		}
		list = append(list, subject{name})
	}
	return list, nil
}
