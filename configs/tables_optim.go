package configs

import "github.com/berth-ml/berth/engine/registry"

var noDecay = enum{"bias", "norm", "embedding"}

var optimizerSection = chosen(&section{
	doc:        "The update of the weights, as PyTorch defines it.",
	pos:        posOf(func(o *Optimizer) *Pos { return &o.Pos }),
	shorthand:  "name",
	names:      registry.Optimizer,
	registered: registeredIn(func(o *Optimizer) *Registered { return &o.Registered }),
	selector: &key{name: "name",
		at: at(func(o *Optimizer) *string { return &o.Name }), def: "adamw", doc: "it decides the other keys"},
	keys: []*key{
		{name: "lr", kind: nonNeg, at: at(func(o *Optimizer) *float64 { return &o.LR }), def: "0.001", doc: "learning rate"},
		{name: "clip_norm", kind: nonNeg, at: at(func(o *Optimizer) *float64 { return &o.ClipNorm }), def: "0",
			doc: "largest norm of all gradients together; larger ones are scaled down; 0: no limit"},
		{name: "no_decay", kind: texts{noDecay}, at: at(func(o *Optimizer) *[]string { return &o.NoDecay }), def: "[]",
			doc: "groups of parameters without weight decay: any of `bias`, `norm`, `embedding`"},
		{name: "freeze", kind: texts{text{valid: "a pattern of parameter names such as conv1.*"}}, at: at(func(o *Optimizer) *[]string { return &o.Freeze }), def: "[]",
			doc: "patterns of the names of parameters that are not trained; `*` matches anything"},
	},
})

var scheduleSection = chosen(&section{
	doc:        "The learning rate over the steps of the whole run.",
	pos:        posOf(func(s *Schedule) *Pos { return &s.Pos }),
	shorthand:  "name",
	names:      registry.Schedule,
	registered: registeredIn(func(s *Schedule) *Registered { return &s.Registered }),
	selector: &key{name: "name", at: at(func(s *Schedule) *string { return &s.Name }), def: "constant",
		flag: "schedule", flagTakes: "NAME", flagTrains: true, doc: "it decides the other keys"},
	keys: []*key{{name: "warmup", kind: counting, at: at(func(s *Schedule) *int { return &s.Warmup }), def: "0",
		doc: "steps at the start over which the rate rises to `lr`. A run that is no longer than that has a shorter one, with a note: in proportion where an override shortened the run, and else a tenth of the run"},
		{name: "ends_at", kind: positive, at: at(func(s *Schedule) *int { return &s.EndsAt }),
			doc: "the step at which the schedule ends: from then on the rate stays that of the step before. Without it, the schedule ends with the run. A run that [goes on beyond its end](training.md#beyond-the-end) has it"}},
})
