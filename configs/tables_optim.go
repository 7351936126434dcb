package configs

import "github.com/berth-ml/berth/engine/registry"

func decay(def string) *key {
	return &key{name: "weight_decay", kind: nonNeg, at: at(func(o *Optimizer) *float64 { return &o.WeightDecay }), def: def,
		doc: "pull of the weights towards 0. adamw subtracts it from the weights; the others add it to the gradient"}
}

var (
	optMomentum = key{name: "momentum", kind: belowOne, at: at(func(o *Optimizer) *float64 { return &o.Momentum }), def: "0.9",
		doc: "share of the last update that is kept"}
	adamKeys = []*key{
		{name: "betas", kind: pair{belowOne}, at: at(func(o *Optimizer) *[2]float64 { return &o.Betas }), def: "[0.9, 0.999]",
			doc: "decay of the running averages of the gradient and of its square"},
		{name: "eps", kind: aboveZero, at: at(func(o *Optimizer) *float64 { return &o.Eps }), def: "1e-8", doc: "added to the root of the average square"},
	}
	noDecay = enum{"bias", "norm", "embedding"}
)

var optimizerSection = chosen(&section{
	doc:       "The update of the weights, as PyTorch defines it.",
	pos:       posOf(func(o *Optimizer) *Pos { return &o.Pos }),
	shorthand: "name",
	addable:   registry.Optimizer,
	added:     addedTo(func(o *Optimizer) *Added { return &o.Added }),
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
	variants: []variant{
		{"sgd", "w ← w − lr·g.", []*key{decay("0")}},
		{"momentum", "v ← momentum·v + g, w ← w − lr·v.", []*key{&optMomentum, decay("0")}},
		{"nesterov", "As momentum, looking ahead: w ← w − lr·(g + momentum·v).", []*key{&optMomentum, decay("0")}},
		{"adam", "Kingma and Ba, 2015.", append(adamKeys[:2:2], decay("0"))},
		{"adamw", "Adam with weight decay apart from the gradient; Loshchilov and Hutter, 2019.", append(adamKeys[:2:2], decay("0.01"))},
	},
})

var minLR = key{name: "min_lr", kind: nonNeg, at: at(func(s *Schedule) *float64 { return &s.MinLR }), def: "0", doc: "the rate at the schedule's end"}

var scheduleSection = chosen(&section{
	doc:       "The learning rate over the steps of the whole run.",
	pos:       posOf(func(s *Schedule) *Pos { return &s.Pos }),
	shorthand: "name",
	addable:   registry.Schedule,
	added:     addedTo(func(s *Schedule) *Added { return &s.Added }),
	selector: &key{name: "name", at: at(func(s *Schedule) *string { return &s.Name }), def: "constant",
		doc: "it decides the other keys"},
	keys: []*key{{name: "warmup", kind: counting, at: at(func(s *Schedule) *int { return &s.Warmup }), def: "0",
		doc: "steps at the start over which the rate rises to `lr`"}},
	variants: []variant{
		{"constant", "The rate stays `lr`.", nil},
		{"step", "The rate is multiplied by `gamma` every `every` steps.", []*key{
			{name: "every", kind: positive, at: at(func(s *Schedule) *int { return &s.Every }), required: true, doc: "steps between multiplications"},
			{name: "gamma", kind: aboveZero, at: at(func(s *Schedule) *float64 { return &s.Gamma }), def: "0.1", doc: "factor"}}},
		{"cosine", "Half a cosine from `lr` to `min_lr`.", []*key{&minLR}},
		{"linear", "A line from `lr` to `min_lr`.", []*key{&minLR}},
	},
})
