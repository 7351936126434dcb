package configs

var adaptSection = &section{
	doc:      "An [adapter](text.md#adapters) that is trained in place of the weights, which stay as they are. None unless given.",
	pos:      posOf(func(a *Adapt) *Pos { return &a.Pos }),
	optional: true,
	keys: []*key{
		{name: "lora", kind: loraSection, at: at(func(a *Adapt) *LoRA { return &a.LoRA }), required: true},
		{name: "base", kind: storages, at: at(func(a *Adapt) *string { return &a.Base }), def: "float32",
			doc: "how the frozen weights lie in memory: `bf16` stores the matrices of dense layers and projections and the tables of `embedding` in half the bytes, each number rounded to bfloat16, by at most 2⁻⁸ of its size. `int8` stores them in 27% of the bytes: of each 32 numbers of a row, as integers up to ±127 and a scale, by at most 1/253 of the largest of them. A step computes with these numbers in float32"},
	},
}

var loraSection = &section{
	doc: "LoRA (Hu et al., 2021): beside a product x·Wᵀ, `alpha`/`rank`·x·Aᵀ·Bᵀ is added, of which A [rank,inputs] and B [outputs,rank] are trained. B begins with zeros.",
	pos: posOf(func(l *LoRA) *Pos { return &l.Pos }),
	keys: []*key{
		{name: "rank", kind: whole{1, 1 << 16}, at: at(func(l *LoRA) *int { return &l.Rank }), def: "8", doc: "rows of A, and columns of B"},
		{name: "alpha", kind: above, at: at(func(l *LoRA) *float64 { return &l.Alpha }), def: "16", doc: "the factor of B·A is `alpha`/`rank`"},
		{name: "targets", kind: texts{text{valid: "a name of layers or projections such as q_proj"}}, at: at(func(l *LoRA) *[]string { return &l.Targets }), required: true,
			doc: "names of dense layers, and of projections of `attention`, `grouped_attention` and `gated_mlp`: whole such as `layers.0.self_attn.q_proj`, or from one of their dots on, such as `q_proj`, which is also `q`; `*` matches anything. A layer with the weight of another one has no adapter"},
		{name: "dropout", kind: belowOne, at: at(func(l *LoRA) *float64 { return &l.Dropout }), def: "0", doc: "probability that a number of x is dropped in training, on the adapter's way alone"},
	},
}
