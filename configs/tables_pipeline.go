package configs

// jobsKey is the only key of a pipeline's file.
const jobsKey = "jobs"

// pipelineFile is the file of a pipeline.
var pipelineFile = &section{
	pos:  posOf(func(p *Pipeline) *Pos { return &p.Pos }),
	keys: []*key{{name: jobsKey, kind: steps{}, at: at(func(p *Pipeline) *[]Step { return &p.Jobs }), required: true}},
}

// stepSet is the key of a step with a config that has what wins over that.
var stepSet = &key{name: "set", kind: stepSettings{}, at: at(func(s *Step) *Step { return s }),
	doc: "keys of the config with other values, such as `{train.epochs: 3}`"}

// stepRun is the key of a step that uses a run.
func stepRun(kind, doc string) *key {
	return &key{name: kind, kind: runRef{}, at: at(func(s *Step) *Step { return s }), required: true, doc: doc}
}

func stepSection(keys ...*key) *section {
	return &section{pos: posOf(func(s *Step) *Pos { return &s.Pos }), keys: keys, listed: true}
}

// stepSections are the kinds of steps, by the key that makes a step one of that kind.
var stepSections = map[string]*section{
	StepTrain: stepSection(
		&key{name: StepTrain, kind: stepConfig{}, at: at(func(s *Step) *Step { return s }), required: true, doc: "the config that is trained"},
		&key{name: "init", kind: initRef{}, at: at(func(s *Step) *Step { return s }), doc: "the weights to begin with: a job, or a safetensors file; with some left out, `{file: base, skip: [head.*]}`"},
		stepSet,
	),
	StepSweep: stepSection(
		&key{name: StepSweep, kind: stepSweep{}, at: at(func(s *Step) *Step { return s }), required: true, doc: "the keys of a sweep"},
		stepSet,
	),
	StepTokenizer: stepSection(
		&key{name: StepTokenizer, kind: stepTexts{}, at: at(func(s *Step) *Step { return s }), required: true, doc: "the text from which it is learnt"},
		&key{name: "vocab", kind: whole{leastVocab, mostVocab}, at: at(func(s *Step) *int { return &s.Vocab }), def: "4096", doc: "tokens"},
		&key{name: "field", kind: text{valid: "the key of the text in JSON lines"}, at: at(func(s *Step) *string { return &s.Field }), doc: "of JSON lines, the key of the text"},
	),
	StepEval: stepSection(
		stepRun(StepEval, "the run that is evaluated"),
		stepSet,
	),
	StepExport: stepSection(
		stepRun(StepExport, "the run that is exported"),
		&key{name: "format", kind: formatName{}, at: at(func(s *Step) *string { return &s.Format })},
		&key{name: "out", kind: outPath{}, at: at(func(s *Step) *string { return &s.Out }), required: true, doc: "the new file or folder"},
	),
}
