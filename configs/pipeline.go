package configs

import (
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Pipeline describes jobs, some of which use what others give. [ParsePipeline] gives one.
type Pipeline struct {
	Pos  Pos
	Jobs []Step // in the order of the file, at least one
}

// Step is a job of a pipeline. Its paths are absolute.
type Step struct {
	Pos  Pos
	Name string
	Kind string // StepTrain or another

	Config string   // train: a config's path, or the name of a shipped one
	Init   string   // train: FILE[:PREFIX] with the first weights; "": by rule, or an input gives them
	Skip   []string // train: of those, the weights that begin by rule, as patterns
	Sweep  *Sweep   // sweep

	Texts []string // tokenizer: files and folders, or builtin:NAME
	Vocab int      // tokenizer
	Field string   // tokenizer: of JSON lines, the key of the text; "": files are text

	Run    string // eval, export: a run folder; "": an input gives it
	Format string // export: one of ExportFormats
	Out    string // export: the new file or folder

	Set    []Setting   // train, sweep, eval: what wins over the config
	Inputs []StepInput // what other steps give
}

// The values of Step.Kind.
const (
	StepTrain     = "train"
	StepSweep     = "sweep"
	StepTokenizer = "tokenizer"
	StepEval      = "eval"
	StepExport    = "export"
)

// StepInput is another step whose result a step uses.
type StepInput struct {
	Pos  Pos
	Name string // of the other step
	As   string // InputInit or another
}

// What an input gives: the values of StepInput.As.
const (
	InputInit      = "init"           // the weights with which a training begins
	InputRun       = "run"            // a run to evaluate or export
	InputTokenizer = "data.tokenizer" // this key of the config
)

// ExportFormat is a format in which a model is written for other programs.
type ExportFormat struct {
	Name, Ending string // paths that end so are in this format; a folder has no ending
}

// ExportFormats are all of them.
var ExportFormats = []ExportFormat{{"safetensors", ".safetensors"}, {"onnx", ".onnx"}, {"hf", ""}, {"peft", ""}}

// FormatOf is the format of that name, or without one that in which a path ends; "" if there is none.
func FormatOf(name, path string) string {
	ending := filepath.Ext(path)
	for _, f := range ExportFormats {
		if name == f.Name || name == "" && ending == f.Ending {
			return f.Name
		}
	}
	return ""
}

// Fitted reports whether a key says how a table becomes features. Training measured what it asks for, so it is not
// changed for a model that is trained.
func Fitted(key string) bool { return key == "data.columns" || key == "data.missing" }

// IsPipeline reports whether a text is meant as a pipeline, which [ParsePipeline] reads: it is YAML with the key jobs.
func IsPipeline(data []byte) bool {
	root, err := readYAML("", data)
	return err == nil && root.Kind == yaml.MappingNode && lookUp(root, jobsKey) != nil
}

// ParsePipeline reads a pipeline from memory. Messages name it file, and relative paths in it begin at file's folder. All
// mistakes come back at once, as errors.Join of [*Error]s. What the configs of steps say is not read.
func ParsePipeline(file string, data []byte) (*Pipeline, error) {
	if err := registeredNames(); err != nil {
		return nil, err
	}
	root, err := readYAML(file, data)
	if err != nil {
		return nil, err
	}
	d := newDecoder(file, noPaths)
	p := &Pipeline{}
	pipelineFile.decode(d, root, "", p)
	if len(d.faults) == 0 {
		p.finish(d)
	}
	if err := joinFaults(d.faults); err != nil {
		return nil, err
	}
	return p, nil
}

// Step is the step of that name; nil: there is none.
func (p *Pipeline) Step(name string) *Step {
	i := slices.IndexFunc(p.Jobs, func(s Step) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Jobs[i]
}

// gives says what the result of a step of a kind can be for others.
func gives(kind, as string) bool {
	switch as {
	case InputInit, InputRun:
		return kind == StepTrain || kind == StepSweep
	case InputTokenizer:
		return kind == StepTokenizer
	}
	return false
}

// finish checks that the steps agree.
func (p *Pipeline) finish(d *decoder) {
	outs := map[string]string{}
	for i := range p.Jobs {
		s := &p.Jobs[i]
		for _, in := range s.Inputs {
			if of := p.Step(in.Name); !gives(of.Kind, in.As) {
				d.fail(in.Pos, join(jobsKey, s.Name), "job %s is of kind %s, which gives no %s; a file of that name is ./%s", in.Name, of.Kind, wanted[in.As], in.Name)
			}
		}
		if s.Out == "" {
			continue
		}
		if other := outs[s.Out]; other != "" {
			d.fail(s.Pos, join(jobsKey, s.Name)+".out", "job %s writes there, too: name another", other)
		}
		outs[s.Out] = s.Name
	}
	if len(d.faults) == 0 {
		p.refuseCycles(d)
	}
}

// wanted words what an input is to give. Others than these none gives.
var wanted = map[string]string{
	InputInit: "weights to begin with", InputRun: "run", InputTokenizer: "tokenizer", inputConfig: "config", inputText: "text", inputPath: "file for this key",
}

// refuseCycles finds the first step that waits for itself.
func (p *Pipeline) refuseCycles(d *decoder) {
	const under, done = 1, 2
	state := map[string]int{}
	var visit func(s *Step, way []string) bool
	visit = func(s *Step, way []string) bool {
		way = append(way, s.Name)
		state[s.Name] = under
		for _, in := range s.Inputs {
			switch state[in.Name] {
			case under:
				way = append(way[slices.Index(way, in.Name):], in.Name)
				d.fail(in.Pos, join(jobsKey, s.Name), "a cycle: %s; none of them could begin", strings.Join(way, " waits for "))
				return false
			case 0:
				if !visit(p.Step(in.Name), way) {
					return false
				}
			}
		}
		state[s.Name] = done
		return true
	}
	for i := range p.Jobs {
		if state[p.Jobs[i].Name] == 0 && !visit(&p.Jobs[i], nil) {
			return
		}
	}
}
