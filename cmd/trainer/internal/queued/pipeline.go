package queued

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

// pipelineIn is the pipeline in a file, with its text; nil if it is a file of another kind, or none.
func pipelineIn(path string) (*configs.Pipeline, []byte, error) {
	if slices.Contains(configs.Names(), path) {
		return nil, nil, nil
	}
	data, err := osfile.Read(path, configs.MaxFile+1)
	if err != nil || !configs.IsPipeline(data) { // loading it as a config says what is wrong
		return nil, nil, nil
	}
	p, err := configs.ParsePipeline(path, data)
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	return p, data, nil
}

// queuePipeline submits a pipeline, whose text is in the file at path.
func queuePipeline(c *cobra.Command, cf *runs.ConfigFlags, path string, p *configs.Pipeline, text []byte, r request) error {
	if flag := cf.Given(c); flag != "" {
		return cli.Usagef("--%s: each job of a pipeline has a config of its own: give set there, in %s", flag, path)
	}
	r.Config, r.Name = text, configs.NameOf(path)
	trained := map[string]*configs.Config{}
	var mistakes []error
	for i := range p.Jobs {
		s := &p.Jobs[i]
		step, cfg, err := stepOf(s)
		if err == nil {
			trained[s.Name] = cfg
			err = exportable(s, trained)
		}
		if err != nil {
			mistakes = append(mistakes, ofStep(err, s, &step, cfg))
		}
		r.Steps = append(r.Steps, step)
	}
	if err := errors.Join(mistakes...); err != nil {
		return cli.Usage(err)
	}
	err := r.send(c, nil, func() {
		for _, s := range p.Jobs {
			if cfg := trained[s.Name]; cfg != nil {
				ignored(c, cfg)
			}
		}
	})
	if err == nil {
		return nil
	}
	for i := range p.Jobs {
		s := &p.Jobs[i]
		if words, ok := strings.CutPrefix(err.Error(), "job "+s.Name+": "); ok { // its plan failed
			return ofStep(placed{err, words}, s, &r.Steps[i], trained[s.Name])
		}
	}
	return err
}

// ofStep is an error about a step with the places that were written. cfg is the config of one that trains; nil: it is not known.
func ofStep(err error, s *configs.Step, sent *jobs.Step, cfg *configs.Config) error {
	was := err
	if cfg != nil && len(sent.Config) > 0 {
		err = typed(err, sent.Config, cfg)
	}
	if s.Sweep != nil {
		err = varied(err, s.Sweep)
	}
	words := err.Error()
	for _, x := range s.Set {
		pair := x.Key + "=" + x.Value
		words = strings.ReplaceAll(words, "--set "+pair+":", "set "+pair+":")
	}
	return placed{was, fmt.Sprintf("%s: job %s: %s", s.Pos, s.Name, words)}
}

// stepOf is a step as it is submitted, with the config of one that trains.
func stepOf(s *configs.Step) (step jobs.Step, cfg *configs.Config, err error) {
	step.Name, step.Init, step.Skip = s.Name, s.Init, s.Skip
	var set []string
	for _, x := range s.Set {
		set = append(set, x.Key+"="+x.Value)
	}
	for _, in := range s.Inputs {
		step.Inputs = append(step.Inputs, jobs.StepInput{Step: in.Name, As: in.As})
	}
	switch s.Kind {
	case configs.StepTokenizer:
		step.Work = &queue.Work{Kind: queue.WorkTokenizer, Texts: s.Texts, Vocab: s.Vocab, Field: s.Field}
	case configs.StepEval:
		step.Work = &queue.Work{Kind: queue.WorkEval, Run: s.Run, Set: set}
	case configs.StepExport:
		step.Work = &queue.Work{Kind: queue.WorkExport, Run: s.Run, Format: s.Format, Out: s.Out}
	}
	if step.Work != nil {
		if s.Run != "" && !rundir.IsRun(osfile.Resolve(s.Run)) {
			err = fmt.Errorf("%s is not a run folder: it has no %s", shortPath(s.Run), rundir.CheckpointsName)
		}
		return step, nil, err
	}
	from := s.Config
	if s.Sweep != nil {
		from = s.Sweep.Config
		yaml, err := s.Sweep.YAML()
		if err != nil {
			return step, nil, err
		}
		step.Sweep = string(yaml)
	}
	if cfg, err = configs.Load(from, configs.Overlay{Env: os.Environ(), Set: set}); err != nil {
		return step, nil, err
	}
	written := cfg
	if s.Sweep == nil {
		written, step.Length = apart(cfg)
	}
	step.Config, err = written.Kept()
	return step, cfg, err
}

// exportable refuses the export of a model in a format that it does not have, as far as its config says so.
func exportable(s *configs.Step, trained map[string]*configs.Config) error {
	for _, in := range s.Inputs {
		if cfg := trained[in.Name]; s.Format == "hf" && cfg != nil && cfg.Model.Preset != "gpt" && !cfg.Model.IsLlama() {
			return fmt.Errorf("the model of %s uses none of the presets gpt, llama, mistral and qwen2, and only those can be written in Hugging Face's layout: give another format", in.Name)
		}
		if cfg := trained[in.Name]; s.Format == "peft" && cfg != nil && !cfg.Adapts() {
			return fmt.Errorf("the model of %s has no adapter: train one (adapt.lora), or give another format", in.Name)
		}
	}
	return nil
}

// announcedPipeline says which pipeline was queued.
func announcedPipeline(j *queue.Job, steps []jobs.Step) string {
	var names []string
	for _, s := range steps {
		names = append(names, s.Name)
	}
	return fmt.Sprintf("pipeline %d: %s in %s: %s", j.ID, units.Count(len(names), "job"), shortPath(j.Dir), strings.Join(names, ", "))
}

// stepsOf are the steps of a pipeline.
func stepsOf(list []jobs.View, id int) (steps []*jobs.View) {
	for i := range list {
		if s := list[i].StepOf; s != nil && s.Pipeline == id {
			steps = append(steps, &list[i])
		}
	}
	return steps
}

// stepsDone says how many steps of a pipeline have finished.
func stepsDone(list []jobs.View, id int) string {
	done := 0
	steps := stepsOf(list, id)
	for _, v := range steps {
		if v.State == queue.Finished {
			done++
		}
	}
	return fmt.Sprintf("%d/%d jobs", done, len(steps))
}

// stepLogs prints the logs of a pipeline's steps, each below its number.
func stepLogs(c *cobra.Command, d desk, id int) error {
	list, _, err := d.Views(c.Context())
	if err != nil {
		return err
	}
	for _, v := range stepsOf(list, id) {
		fmt.Fprintf(c.OutOrStdout(), "%s, job %d:\n", v.StepOf.Name, v.ID)
		if v.Sweep != nil {
			if err := trialLogs(c, d, v.ID); err != nil {
				return err
			}
			continue
		}
		reader := jobs.NewLogReader(v.Dir)
		if err := errors.Join(reader.Copy(c.OutOrStdout()), reader.Close()); err != nil {
			return err
		}
	}
	return nil
}
