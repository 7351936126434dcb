package configs

// rootSection is the whole config.
var rootSection = &section{
	pos: posOf(func(c *Config) *Pos { return &c.Pos }),
	keys: []*key{
		{name: "name", kind: runName, at: at(func(c *Config) *string { return &c.Name }), free: true,
			doc: "names the run folder; the file's name unless given"},
		{name: "seed", kind: seed{}, at: at(func(c *Config) *uint64 { return &c.Seed }), def: "1",
			doc: "of everything random: the split, the order, initial weights, dropout"},
		{name: "data", kind: dataSection, at: at(func(c *Config) *Data { return &c.Data }), required: true},
		{name: "model", kind: modelSection, at: at(func(c *Config) *Model { return &c.Model }), required: true},
		{name: "loss", kind: losses, at: at(func(c *Config) *string { return &c.Loss }),
			doc: "what is minimised; `cross_entropy` for classification and text, `mse` for regression, unless given; `bce`, on logits, for targets of 0 and 1, or between, which need `data.task: regression`"},
		{name: "precision", kind: precisions, at: at(func(c *Config) *string { return &c.Precision }), def: "float32",
			doc: "of the factors in the matrix products of dense layers and of attention's projections, forward and backward: `bf16` rounds them to bfloat16; sums, weights, gradients and the optimizer's state are float32 always"},
		{name: "train", kind: trainSection, at: at(func(c *Config) *Train { return &c.Train })},
		{name: "optimizer", kind: optimizerSection, at: at(func(c *Config) *Optimizer { return &c.Optimizer })},
		{name: "schedule", kind: scheduleSection, at: at(func(c *Config) *Schedule { return &c.Schedule })},
		{name: "partition", kind: partitionSection, at: at(func(c *Config) *Partition { return &c.Partition }), free: true},
		{name: "devices", kind: devicesSection, at: at(func(c *Config) *Devices { return &c.Devices }), free: true},
		{name: "checkpoint", kind: checkpointSection, at: at(func(c *Config) *Checkpoint { return &c.Checkpoint }), free: true},
		{name: "early_stopping", kind: earlySection, at: at(func(c *Config) *EarlyStopping { return &c.EarlyStopping }), free: true},
	},
}

var trainSection = &section{
	doc: "How long, and in what pieces.",
	pos: posOf(func(t *Train) *Pos { return &t.Pos }),
	keys: []*key{
		{name: "epochs", kind: positive, at: at(func(t *Train) *int { return &t.Epochs }), def: "10",
			doc: "passes over the training part; the learning rate's schedule ends with them"},
		{name: "batch", kind: positive, at: at(func(t *Train) *int { return &t.Batch }), def: "32",
			doc: "samples in a step; the last batch of an epoch may be smaller"},
		{name: "microbatches", kind: positive, at: at(func(t *Train) *int { return &t.Microbatches }), def: "1",
			doc: "equal pieces of the batch, whose gradients are added; must divide `batch`"},
		{name: "shuffle", kind: boolean{}, at: at(func(t *Train) *bool { return &t.Shuffle }), def: "true",
			doc: "a new order each epoch, by the seed"},
		{name: "log_every", kind: counting, at: at(func(t *Train) *int { return &t.LogEvery }), def: "0", free: true,
			doc: "steps between losses coming out of the device; 0: at the epoch's end"},
	},
}

var partitionSection = &section{
	doc: "How the model is spread over devices. The weights come out the same, bit for bit, whatever is chosen here.",
	pos: posOf(func(p *Partition) *Pos { return &p.Pos }),
	keys: []*key{
		{name: "stages", kind: cut{block: blockName}, at: at(func(p *Partition) *Stages { return &p.Stages }), def: "auto",
			doc: "`auto`: one for each device, placed by cost; a number of them; or the blocks of each, by name"},
		{name: "schedule", kind: enum{"gpipe", "1f1b"}, at: at(func(p *Partition) *string { return &p.Schedule }), def: "1f1b",
			doc: "the order of microbatches: all forward first, or one forward, one backward"},
		{name: "recompute", kind: enum{"none", "cheap", "block"}, at: at(func(p *Partition) *string { return &p.Recompute }), def: "none",
			doc: "what the backward pass computes again instead of keeping it: nothing; what takes little time (elementwise ops, norms, softmax, dropout's masks); or all of a block but what goes into it"},
	},
}

var devicesSection = &section{
	doc:       "What the run may use. `devices: cpu:2` is short for `devices: {use: \"cpu:2\"}`.",
	pos:       posOf(func(d *Devices) *Pos { return &d.Pos }),
	shorthand: "use",
	keys: []*key{
		{name: "use", kind: device, at: at(func(d *Devices) *string { return &d.Use }), def: "cpu:1", flag: "devices",
			doc: "a kind of device and how many of them: cpu, or cpu:2"},
		{name: "threads", kind: whole{0, MaxThreads}, at: at(func(d *Devices) *int { return &d.Threads }), def: "0", flag: "threads",
			doc: "worker threads over all devices, so that 4 are two for each of cpu:2; 0: one for each core"},
		{name: "memory", kind: size{least: leastMemory}, at: at(func(d *Devices) *int64 { return &d.Memory }), def: "0",
			doc: "budget of each device, in bytes or as `512MiB`; 0: what the device has"},
	},
}

var checkpointSection = &section{
	doc: "When snapshots are taken, and which stay. One is always taken at an epoch's end. A kill costs the steps since the newest that had reached the disk.",
	pos: posOf(func(c *Checkpoint) *Pos { return &c.Pos }),
	keys: []*key{
		{name: "every", kind: counting, at: at(func(c *Checkpoint) *int { return &c.Every }), def: "0",
			doc: "steps between snapshots within an epoch; 0: none"},
		{name: "keep", kind: keepSection, at: at(func(c *Checkpoint) *Keep { return &c.Keep })},
		{name: "best", kind: metric, at: at(func(c *Checkpoint) *string { return &c.Best }), def: "val_loss",
			doc: "the metric that says which snapshot is best"},
		{name: "compress", kind: enum{"none", "zstd"}, at: at(func(c *Checkpoint) *string { return &c.Compress }), def: "none",
			doc: "zstd makes the file a little smaller, and a save slower: weights are almost random numbers"},
		{name: "staging", kind: staging{}, at: at(func(c *Checkpoint) *int64 { return &c.Staging }), def: "auto",
			doc: "host memory for a save: `whole` copies the state and saves it while training goes on; a number of bytes bounds the memory, though the largest variable is copied whole and may need more, and training waits for the disk; `auto` is whole where a quarter of the free memory holds the state, else 256MiB"},
	},
}

var keepSection = &section{
	doc: "How many snapshots stay; damaged ones do not count.",
	pos: posOf(func(k *Keep) *Pos { return &k.Pos }),
	keys: []*key{
		{name: "last", kind: positive, at: at(func(k *Keep) *int { return &k.Last }), def: "3", doc: "the newest"},
		{name: "best", kind: counting, at: at(func(k *Keep) *int { return &k.Best }), def: "1", doc: "the best by `checkpoint.best`"},
		{name: "every", kind: counting, at: at(func(k *Keep) *int { return &k.Every }), def: "0", doc: "those at steps that are multiples of this, for good; 0: none"},
	},
}

var earlySection = &section{
	doc: "Ends the run once a validation metric stops improving. Off unless given.",
	pos: posOf(func(e *EarlyStopping) *Pos { return &e.Pos }),
	keys: []*key{
		{name: "metric", kind: metric, at: at(func(e *EarlyStopping) *string { return &e.Metric }), def: "val_loss", doc: "what is watched"},
		{name: "patience", kind: counting, at: at(func(e *EarlyStopping) *int { return &e.Patience }), required: true,
			doc: "epochs without improvement before the run ends; 0: off"},
		{name: "min_delta", kind: nonNeg, at: at(func(e *EarlyStopping) *float64 { return &e.MinDelta }), def: "0",
			doc: "what counts as an improvement"},
	},
}
