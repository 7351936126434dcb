package configs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// stepKinds are the kinds of steps in the order of messages.
var stepKinds = []string{StepTrain, StepSweep, StepTokenizer, StepEval, StepExport}

// What no step gives, so that a message can name it: further values of StepInput.As.
const (
	inputConfig = "config"
	inputText   = "text"
	inputPath   = "path"
)

// steps are the jobs of a pipeline, by name.
type steps struct{}

func (steps) expect() string {
	return "jobs by their names, such as {small: {train: my.yaml}, score: {eval: small}}"
}

func (k steps) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		d.mismatch(n, path, k.expect())
		return
	}
	given := entries(d, n, path)
	for name := range given {
		d.jobs = append(d.jobs, name)
	}
	slices.Sort(d.jobs)
	out := dst.(*[]Step)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if given[name.Value].key != name {
			continue // reported
		}
		s := Step{Name: name.Value}
		at := join(path, s.Name)
		if !namePattern.MatchString(s.Name) {
			d.fail(d.pos(name), at, "expected %s, which the folder of the job has", runName.valid)
			continue
		}
		if s.decode(d, n.Content[i+1], at); s.Kind == StepTokenizer && slices.Contains(tokenizerNames, s.Name) {
			d.fail(d.pos(name), at, "data.tokenizer: %s is another tokenizer: give the job another name", s.Name)
		}
		*out = append(*out, s)
	}
}

func (steps) encode(any, func(*key) bool) *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

// decode reads a step, whose kind is the key of a kind that it has.
func (s *Step) decode(d *decoder, n *yaml.Node, path string) {
	var kinds []string
	for _, kind := range stepKinds {
		if n.Kind == yaml.MappingNode && lookUp(n, kind) != nil {
			kinds = append(kinds, kind)
		}
	}
	switch {
	case n.Kind != yaml.MappingNode:
		d.mismatch(n, path, "a mapping with one of the keys "+strings.Join(stepKinds, ", "))
	case len(kinds) == 0:
		unknown := ""
		for i := 0; i < len(n.Content); i += 2 {
			if near := nearest(n.Content[i].Value, stepKinds); near != "" {
				unknown = didYouMean(n.Content[i].Value, stepKinds)
				break
			}
		}
		d.fail(d.pos(n), path, "nothing says what the job does: give one of the keys %s%s", strings.Join(stepKinds, ", "), unknown)
	case len(kinds) > 1:
		d.fail(d.pos(n), path, "%s exclude each other; make a job of each", strings.Join(kinds, " and "))
	default:
		s.Kind = kinds[0]
		stepSections[s.Kind].decode(d, n, path, s)
		s.Pos = d.pos(n)
		if s.Kind != StepExport || s.Out == "" {
			return
		}
		if s.Format = FormatOf(s.Format, s.Out); s.Format == "" {
			d.fail(d.pos(lookUp(n, "out")), path+".out", "no format ends in %s: give format, %s", filepath.Ext(s.Out), formatName{}.expect())
		}
	}
}

// ref takes a node that names a job in place of a path. s then has it as an input.
func (s *Step) ref(d *decoder, n *yaml.Node, as string) bool {
	if n.Kind != yaml.ScalarNode || !slices.Contains(d.jobs, n.Value) {
		return false
	}
	s.Inputs = append(s.Inputs, StepInput{d.pos(n), n.Value, as})
	return true
}

// full is the absolute path that a node gives. there says whether it is what is wanted, as a file may be that what names.
func (d *decoder) full(n *yaml.Node, path, what string, there func(path string) bool) string {
	if n.Kind != yaml.ScalarNode || !pathText.pattern.MatchString(n.Value) || n.ShortTag() != "!!str" {
		d.mismatch(n, path, "the name of a job, or "+what)
		return ""
	}
	if strings.HasPrefix(n.Value, builtIn) {
		return n.Value
	}
	before := len(d.faults)
	given := d.path(n, path, n.Value)
	if len(d.faults) > before {
		return ""
	}
	if !there(given) {
		d.fail(d.pos(n), path, "%s is neither a job of this file nor %s%s", n.Value, what, nearJob(n.Value, d.jobs))
		return ""
	}
	all, err := filepath.Abs(given)
	if err != nil {
		d.fail(d.pos(n), path, "%v", err)
	}
	return all
}

// nearJob names the job that a name may mean.
func nearJob(name string, jobs []string) string {
	if near := nearest(name, jobs); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// ofStep is what kinds of a step have in common: the step is what they fill, and no YAML is made of it.
type ofStep struct{}

func (ofStep) encode(any, func(*key) bool) *yaml.Node { return str("") }

// stepConfig is the config of a training.
type stepConfig struct{ ofStep }

func (stepConfig) expect() string { return configName{}.expect() }

func (stepConfig) decode(d *decoder, n *yaml.Node, path string, dst any) {
	s := dst.(*Step)
	if !slices.Contains(Names(), n.Value) && s.ref(d, n, inputConfig) {
		return
	}
	configName{}.decode(d, n, path, &s.Config)
}

// initRef is the weights with which a training begins.
type initRef struct{ ofStep }

func (initRef) expect() string {
	return "the name of a job, a safetensors file, or a mapping such as {file: w.safetensors, skip: [head.*]}"
}

func (k initRef) decode(d *decoder, n *yaml.Node, path string, dst any) {
	s := dst.(*Step)
	if n.Kind == yaml.MappingNode {
		given := entries(d, n, path)
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if name != "file" && name != "skip" {
				d.fail(d.pos(given[name].key), join(path, name), "unknown key%s", didYouMean(name, []string{"file", "skip"}))
			}
		}
		file, skip := given["file"], given["skip"]
		if file.key == nil || skip.key == nil {
			d.mismatch(n, path, k.expect())
			return
		}
		texts{skipped}.decode(d, skip.value, join(path, "skip"), &s.Skip)
		n, path = file.value, join(path, "file")
	}
	if s.ref(d, n, InputInit) {
		return
	}
	s.Init = d.full(n, path, "a safetensors file", func(path string) bool {
		file := path
		if i := strings.LastIndexByte(path, ':'); i > 0 {
			file = path[:i]
		}
		return matches(path) || matches(file)
	})
}

// skipped is a pattern of weights that a file does not give.
var skipped = text{valid: "a pattern of parameter names such as head.*"}

// runRef is the run that a step uses.
type runRef struct{ ofStep }

func (runRef) expect() string { return "the name of a job, or a run folder" }

func (runRef) decode(d *decoder, n *yaml.Node, path string, dst any) {
	s := dst.(*Step)
	if s.ref(d, n, InputRun) {
		return
	}
	s.Run = d.full(n, path, "a run folder", func(path string) bool {
		st, err := os.Stat(path)
		return err == nil && st.IsDir()
	})
}

// stepTexts are the files and folders from which a tokenizer is learnt.
type stepTexts struct{ ofStep }

func (stepTexts) expect() string { return "a file or folder of text, or a list of them" }

func (k stepTexts) decode(d *decoder, n *yaml.Node, path string, dst any) {
	s := dst.(*Step)
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode && len(n.Content) > 0 {
		items = n.Content
	}
	for _, item := range items {
		if !s.ref(d, item, inputText) {
			s.Texts = append(s.Texts, d.full(item, path, "a file or folder of text", matches))
		}
	}
}

// stepSweep is the sweep that a step is.
type stepSweep struct{ ofStep }

func (stepSweep) expect() string { return sweepSection.expect() }

func (stepSweep) decode(d *decoder, n *yaml.Node, path string, dst any) {
	s := dst.(*Step)
	if n.Kind == yaml.MappingNode {
		if c := lookUp(n, "config"); c != nil && !slices.Contains(Names(), c.Value) && s.ref(d, c, inputConfig) {
			return
		}
		if vary := lookUp(n, "vary"); vary != nil {
			s.refuseVaried(d, vary)
		}
	}
	apart := newDecoder(d.file, d.paths)
	apart.origin = d.origin
	s.Sweep = &Sweep{}
	sweepSection.decode(apart, n, sweepKey, s.Sweep)
	if len(apart.faults) == 0 {
		s.Sweep.finish(apart)
	}
	for _, f := range apart.faults {
		if f.Key == sweepKey || strings.HasPrefix(f.Key, sweepKey+".") {
			f.Key = path + strings.TrimPrefix(f.Key, sweepKey)
		}
		d.faults = append(d.faults, f)
	}
}

// refuseVaried refuses the names of jobs among the values of a key of a path: trials have the same inputs.
func (s *Step) refuseVaried(d *decoder, vary *yaml.Node) {
	for i := 0; i+1 < len(vary.Content); i += 2 {
		for _, item := range vary.Content[i+1].Content {
			if name := vary.Content[i].Value; takesPath(name) && slices.Contains(d.jobs, item.Value) && item.Kind == yaml.ScalarNode {
				d.fail(d.pos(item), name, "%s is a job, and all trials have the same inputs: give it in set; a file of that name is ./%s", item.Value, item.Value)
			}
		}
	}
}

// takesPath reports whether the values of a key are paths.
func takesPath(name string) bool {
	l, ok := allLeaves()[name]
	if !ok {
		return false
	}
	switch k := l.key.kind.(type) {
	case text:
		return k.path
	case paths:
		return true
	}
	return false
}

// stepSettings are keys of a config with their values.
type stepSettings struct{ ofStep }

func (stepSettings) expect() string { return "keys with their values, such as {train.epochs: 3}" }

func (k stepSettings) decode(d *decoder, n *yaml.Node, path string, dst any) {
	s := dst.(*Step)
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		d.mismatch(n, path, k.expect())
		return
	}
	given := entries(d, n, path)
	l := layering{d: d, known: allLeaves()}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch _, known := l.known[name.Value]; {
		case given[name.Value].key != name: // reported
		case !known:
			d.fail(d.pos(name), name.Value, "the config has no such key%s", l.hint(name.Value, ""))
		case s.Kind == StepEval && Fitted(name.Value):
			d.fail(d.pos(name), name.Value, "belongs to the model, which was trained with it: leave it out, or train anew with it")
		default:
			s.setting(d, name.Value, value)
		}
	}
}

// setting reads the value of a known key.
func (s *Step) setting(d *decoder, name string, n *yaml.Node) {
	if takesPath(name) {
		as := inputPath
		if name == InputTokenizer && s.Kind != StepEval {
			as = InputTokenizer
		}
		for _, item := range append([]*yaml.Node{n}, n.Content...) {
			isName := name == InputTokenizer && slices.Contains(tokenizerNames, item.Value)
			if !isName && s.ref(d, item, as) {
				return
			}
		}
	}
	before := len(d.faults)
	text, _ := (&Dimension{Key: name}).value(d, n)
	if len(d.faults) > before {
		return
	}
	if file := text; takesPath(name) && n.Kind == yaml.ScalarNode && !strings.HasPrefix(file, builtIn) {
		if name == InputTokenizer {
			file = (&Data{Tokenizer: text}).TokenizerFile()
		}
		if file != "" && !matches(file) {
			d.fail(d.pos(n), name, "%s is neither a job of this file nor a file%s", n.Value, nearJob(n.Value, d.jobs))
			return
		}
	}
	s.Set = append(s.Set, Setting{name, text})
}

// formatName is a format of an export.
type formatName struct{}

func (formatName) expect() string { return formatName{}.words().expect() }

func (formatName) words() (names enum) {
	for _, f := range ExportFormats {
		names = append(names, f.Name)
	}
	return names
}

func (f formatName) decode(d *decoder, n *yaml.Node, path string, dst any) {
	f.words().decode(d, n, path, dst)
}

func (formatName) encode(src any, _ func(*key) bool) *yaml.Node { return plain(*src.(*string)) }

// outPath is a path of something that is made.
type outPath struct{}

func (outPath) expect() string { return "a path at which there is nothing yet" }

func (o outPath) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || !pathText.pattern.MatchString(n.Value) {
		d.mismatch(n, path, o.expect())
		return
	}
	given := n.Value
	if !filepath.IsAbs(given) {
		given = filepath.Join(filepath.Dir(d.file), given)
	}
	full, err := filepath.Abs(given)
	switch {
	case err != nil:
		d.fail(d.pos(n), path, "%v", err)
	case matches(full):
		d.fail(d.pos(n), path, "%s is there already: name a path at which there is nothing", n.Value)
	}
	*dst.(*string) = full
}

func (outPath) encode(src any, _ func(*key) bool) *yaml.Node { return str(*src.(*string)) }
