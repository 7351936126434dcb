package configs

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/metrics"
)

// Sweep describes many trainings of one config, each with other values of some keys. [ParseSweep] and
// [SweepOfFlags] give one in which every default is filled in.
type Sweep struct {
	Pos       Pos
	Config    string      // a config's path, from the working folder, or the name of a shipped one
	Vary      []Dimension // at least one, no key twice
	Trials    []int       // number of trials, then the numbers of those that were added later
	Strategy  string      // StrategyGrid or another
	Metric    string      // that ranks trials: val_loss, or val_ and a metric
	Halving   bool        // trials that are worse end sooner
	Seed      uint64      // decides the values that are drawn
	Keep      int         // trials whose checkpoints stay, the best ones
	AtOnce    int         // trials that may run at once; 0: one for each device
	KeepGoing bool        // the sweep goes on though its first trials failed
}

// The values of Sweep.Strategy.
const (
	StrategyGrid   = "grid"   // all combinations of lists
	StrategyRandom = "random" // independent draws
	StrategyHalton = "halton" // a scrambled Halton sequence
	StrategyTPE    = "tpe"    // a tree-structured Parzen estimator
)

// Dimension is a key that varies. Either it has Values, or it is a range.
type Dimension struct {
	Pos    Pos
	Key    string   // dotted path
	Values []string // different ones, each as --set takes it; nil: a range
	Lo, Hi float64  // both belong to the range
	Log    bool     // even by magnitude; Lo is above 0
	Whole  bool     // whole numbers
}

// Count is the number of values; 0: a range of real numbers.
func (d *Dimension) Count() int {
	switch {
	case d.Values != nil:
		return len(d.Values)
	case d.Whole:
		return int(d.Hi-d.Lo) + 1
	}
	return 0
}

// String is the text of the dimension, as --vary takes it.
func (d *Dimension) String() string {
	if d.Values != nil {
		return d.Key + "=" + strings.Join(d.Values, ",")
	}
	return d.Key + "=" + d.rangeText()
}

func (d *Dimension) rangeText() string {
	text := strconv.FormatFloat(d.Lo, 'g', -1, 64) + ".." + strconv.FormatFloat(d.Hi, 'g', -1, 64)
	if d.Log {
		return logPrefix + text
	}
	return text
}

// Total is the number of trials.
func (s *Sweep) Total() (n int) {
	for _, t := range s.Trials {
		n += t
	}
	return n
}

// Extend gives the sweep with more trials, total in all. Those that it had stay as they are.
func (s *Sweep) Extend(total int) (*Sweep, error) {
	had := s.Total()
	most := min(mostTrials, s.Combinations())
	if total <= had || total > most {
		return nil, &Error{Key: "sweep.trials", Msg: fmt.Sprintf("got %d, expected more than the %d that there are, and at most %d", total, had, most)}
	}
	out := *s
	out.Trials = append(slices.Clone(s.Trials), total-had)
	return &out, nil
}

// Continues gives the sweep before with the trials that s has in addition, if s is the same but for these; nil: it is not. Trials
// that are one number are as many in all: those beyond the ones of before were added together.
func (s *Sweep) Continues(before *Sweep) (*Sweep, error) {
	then, now := *before, *s
	then.Trials, now.Trials = []int{1}, []int{1}
	was, err := then.YAML()
	if err != nil {
		return nil, err
	}
	is, err := now.YAML()
	n := len(before.Trials)
	switch {
	case err != nil || !bytes.Equal(was, is) || s.Total() < before.Total():
		return nil, err
	case len(s.Trials) >= n && slices.Equal(s.Trials[:n], before.Trials):
		return s, nil
	case len(s.Trials) > 1:
		return nil, nil
	case s.Total() == before.Total():
		return before, nil
	}
	return before.Extend(s.Total())
}

// Combinations is the number of different trials that there can be; math.MaxInt: no bound.
func (s *Sweep) Combinations() int {
	n := 1
	for i := range s.Vary {
		count := s.Vary[i].Count()
		if count == 0 || n > math.MaxInt/count {
			return math.MaxInt
		}
		n *= count
	}
	return n
}

// LowerIsBetter reports whether a lower value of a boundary's metric, such as val_loss, is the better one.
func LowerIsBetter(metric string) bool {
	m, _ := metrics.Find(MetricOf(metric))
	return metric == "val_loss" || m.Lower
}

// YAML writes the sweep with every key. ParseSweep turns the text into an equal one, except for the positions.
func (s *Sweep) YAML() ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	root := sweepFile.encode(s, func(*key) bool { return true })
	if err := checkText(root, s.Pos.File, ""); err != nil {
		return nil, err
	}
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("write the sweep: %w", err)
	}
	return out.Bytes(), enc.Close()
}

// IsSweep reports whether a text is meant as a sweep, which [ParseSweep] reads: it is YAML with the key sweep.
func IsSweep(data []byte) bool {
	root, err := readYAML("", data)
	return err == nil && root.Kind == yaml.MappingNode && lookUp(root, sweepKey) != nil
}

// ParseSweep reads a sweep from memory, with the same rules for file and paths as [Parse]. All mistakes come
// back at once, as errors.Join of [*Error]s. Values are checked by the tables of their keys. Whether they suit the config
// and each other, [Parse] says of the config with the values of a trial.
func ParseSweep(file string, data []byte) (*Sweep, error) {
	root, err := readYAML(file, data)
	if err != nil {
		return nil, err
	}
	return newDecoder(file, noPaths).sweep(root)
}

// SweepOfFlags makes a sweep from a command line: the config, the texts of --vary such as
// "optimizer.lr=log:1e-4..1e-1" or "model.hidden=[64],[128,64]", and the texts of other flags by their names, which
// are those of the keys with - for _. Its mistakes are those of ParseSweep, and name the flags.
func SweepOfFlags(config string, vary []string, flags map[string]string) (*Sweep, error) {
	d := newDecoder("", noPaths)
	d.base = config
	sweep := &yaml.Node{Kind: yaml.MappingNode}
	d.give(sweep, "config", str(config), config)
	if list := d.varyFlags(vary); len(list.Content) > 0 {
		d.give(sweep, "vary", list, "")
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		value, err := readYAML("", []byte(flags[name]))
		if err != nil {
			value = str(flags[name])
		}
		d.give(sweep, strings.ReplaceAll(name, "-", "_"), value, "--"+name+" "+flags[name])
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	d.give(root, sweepKey, sweep, "")
	mistakes := len(d.faults)
	s, err := d.sweep(root)
	if err == nil {
		return s, nil
	}
	for i, f := range slices.Backward(d.faults) { // what is missing has no flag yet
		switch {
		case f.Pos != (Pos{}):
		case f.Key == "sweep.vary" && mistakes > 0: // it is not, but for that mistake
			d.faults = slices.Delete(d.faults, i, i+1)
		case f.Key == "sweep.vary":
			f.Pos, f.Key, f.Msg = Pos{File: "--vary"}, "", "missing, expected "+varyText
		case strings.HasPrefix(f.Key, sweepKey+"."):
			f.Pos, f.Key = Pos{File: "--" + strings.ReplaceAll(f.Key[len(sweepKey)+1:], "_", "-")}, ""
		}
	}
	return nil, joinFaults(d.faults)
}

// varyText is what --vary takes.
const varyText = "key=values, such as optimizer.lr=log:1e-4..1e-1 or train.batch=32,64"

// give adds a key to a mapping. Messages name its origin; "": that of what is below it.
func (d *decoder) give(in *yaml.Node, name string, value *yaml.Node, origin string) {
	key := str(name)
	if origin != "" {
		d.origin[key] = origin
		d.mark(value, origin)
	}
	in.Content = append(in.Content, key, value)
}

// varyFlags is the mapping that the texts of --vary stand for.
func (d *decoder) varyFlags(vary []string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.MappingNode}
	for _, pair := range vary {
		origin := "--vary " + pair
		name, text, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		values := str(text)
		if !rangePattern.MatchString(text) {
			if n, err := readYAML("", []byte("["+text+"]")); err == nil {
				values = n
			}
		}
		switch {
		case !ok:
			d.fail(Pos{File: origin}, "", "expected %s", varyText)
		case lookUp(list, name) != nil:
			d.fail(Pos{File: origin}, name, "given twice; give one --vary for a key, with commas between its values")
		default:
			d.give(list, name, values, origin)
		}
	}
	return list
}
