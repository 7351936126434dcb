package configs

func decay(def string) *key {
	return &key{name: "weight_decay", kind: nonNeg, at: at(func(o *Optimizer) *float64 { return &o.WeightDecay }), def: def,
		doc: "pull of the weights towards 0; adamw applies it apart from the gradient, the others add it to it"}
}

var (
	optMomentum = key{name: "momentum", kind: belowOne, at: at(func(o *Optimizer) *float64 { return &o.Momentum }), def: "0.9",
		doc: "share of the last update that goes on"}
	adamKeys = []*key{
		{name: "betas", kind: pair{belowOne}, at: at(func(o *Optimizer) *[2]float64 { return &o.Betas }), def: "[0.9, 0.999]",
			doc: "memory of the gradient and of its square"},
		{name: "eps", kind: aboveZero, at: at(func(o *Optimizer) *float64 { return &o.Eps }), def: "1e-8", doc: "added to the root of the square"},
	}
	noDecay = enum{"bias", "norm", "embedding"}
)

var optimizerSection = chosen(&section{
	doc:       "How weights are updated; each as PyTorch defines it.",
	pos:       posOf(func(o *Optimizer) *Pos { return &o.Pos }),
	shorthand: "name",
	selector: &key{name: "name",
		at: at(func(o *Optimizer) *string { return &o.Name }), def: "adamw", doc: "it decides the other keys"},
	keys: []*key{
		{name: "lr", kind: nonNeg, at: at(func(o *Optimizer) *float64 { return &o.LR }), def: "0.001", doc: "learning rate"},
		{name: "clip_norm", kind: nonNeg, at: at(func(o *Optimizer) *float64 { return &o.ClipNorm }), def: "0",
			doc: "bound on the norm of all gradients together; 0: none"},
		{name: "no_decay", kind: texts{noDecay}, at: at(func(o *Optimizer) *[]string { return &o.NoDecay }), def: "[]",
			doc: "parameters without weight decay: any of `bias`, `norm`, `embedding`"},
		{name: "freeze", kind: texts{text{what: "a pattern of parameter names such as conv1.*"}}, at: at(func(o *Optimizer) *[]string { return &o.Freeze }), def: "[]",
			doc: "patterns of parameters that stay as they are; `*` matches anything"},
	},
	variants: []variant{
		{"sgd", "w ← w − lr·g.", []*key{decay("0")}},
		{"momentum", "v ← momentum·v + g, w ← w − lr·v.", []*key{&optMomentum, decay("0")}},
		{"nesterov", "The same, looking ahead: w ← w − lr·(g + momentum·v).", []*key{&optMomentum, decay("0")}},
		{"adam", "", append(adamKeys[:2:2], decay("0"))},
		{"adamw", "", append(adamKeys[:2:2], decay("0.01"))},
	},
})

var minLR = key{name: "min_lr", kind: nonNeg, at: at(func(s *Schedule) *float64 { return &s.MinLR }), def: "0", doc: "where it ends"}

var scheduleSection = chosen(&section{
	doc:       "How the learning rate moves over the run's steps, which are the epochs' together.",
	pos:       posOf(func(s *Schedule) *Pos { return &s.Pos }),
	shorthand: "name",
	selector: &key{name: "name", at: at(func(s *Schedule) *string { return &s.Name }), def: "constant",
		doc: "it decides the other keys"},
	keys: []*key{{name: "warmup", kind: counting, at: at(func(s *Schedule) *int { return &s.Warmup }), def: "0",
		doc: "steps over which the rate first rises to `lr`"}},
	variants: []variant{
		{"constant", "", nil},
		{"step", "Times `gamma` every so many steps.", []*key{
			{name: "every", kind: positive, at: at(func(s *Schedule) *int { return &s.Every }), required: true, doc: "steps"},
			{name: "gamma", kind: aboveZero, at: at(func(s *Schedule) *float64 { return &s.Gamma }), def: "0.1", doc: "factor"}}},
		{"cosine", "Half a cosine from `lr` to `min_lr`.", []*key{&minLR}},
		{"linear", "A line from `lr` to `min_lr`.", []*key{&minLR}},
	},
})
