package configs

import "time"

// rootSection is the whole config.
var rootSection = &section{
	pos: posOf(func(c *Config) *Pos { return &c.Pos }),
	keys: []*key{
		{name: "name", kind: runName, at: at(func(c *Config) *string { return &c.Name }), free: true,
			doc: "name of the run folder; the file's name unless given"},
		{name: "seed", kind: seed{}, at: at(func(c *Config) *uint64 { return &c.Seed }), def: "1",
			doc: "decides all random numbers: the split, the order, initial weights, dropout"},
		{name: "data", kind: dataSection, at: at(func(c *Config) *Data { return &c.Data }), required: true},
		{name: "model", kind: modelSection, at: at(func(c *Config) *Model { return &c.Model }), required: true},
		{name: "loss", kind: lossKind{}, at: at(func(c *Config) *Config { return c }),
			doc: "what training minimises; unless given, `cross_entropy` for classification and text, `mse` for regression. `bce` is for targets from 0 to 1 and needs `data.task: regression`. cross_entropy applies softmax itself and bce sigmoid: the model ends without them"},
		{name: "precision", kind: precisions, at: at(func(c *Config) *string { return &c.Precision }), def: "float32",
			doc: "of the factors in the matrix products of dense, lstm and gru layers and of attention, and of convolutions, forward and backward: `bf16` rounds them to bfloat16. Sums, weights, gradients and the optimizer's state are always float32"},
		{name: "adapt", kind: adaptSection, at: at(func(c *Config) *Adapt { return &c.Adapt })},
		{name: "train", kind: trainSection, at: at(func(c *Config) *Train { return &c.Train })},
		{name: "optimizer", kind: optimizerSection, at: at(func(c *Config) *Optimizer { return &c.Optimizer })},
		{name: "schedule", kind: scheduleSection, at: at(func(c *Config) *Schedule { return &c.Schedule })},
		{name: "partition", kind: partitionSection, at: at(func(c *Config) *Partition { return &c.Partition }), free: true},
		{name: "devices", kind: devicesSection, at: at(func(c *Config) *Devices { return &c.Devices }), free: true},
		{name: "distributed", kind: distributedSection, at: at(func(c *Config) *Distributed { return &c.Distributed }), free: true},
		{name: "checkpoint", kind: checkpointSection, at: at(func(c *Config) *Checkpoint { return &c.Checkpoint }), free: true, kept: true},
		{name: "early_stopping", kind: earlySection, at: at(func(c *Config) *EarlyStopping { return &c.EarlyStopping }), free: true, kept: true},
	},
}

var trainSection = &section{
	doc: "The length of training and the size of a step.",
	pos: posOf(func(t *Train) *Pos { return &t.Pos }),
	keys: []*key{
		{name: "epochs", kind: positive, at: at(func(t *Train) *int { return &t.Epochs }), def: "10", unless: "steps", flag: "epochs", flagTakes: "N", flagTrains: true,
			doc: "passes over the training samples; the learning rate's schedule ends with the last"},
		{name: "steps", kind: positive, at: at(func(t *Train) *int { return &t.Steps }),
			doc: "steps of the run, in place of `epochs`; the learning rate's schedule ends with the last"},
		{name: "boundary", kind: orNumber{"epoch"}, at: at(func(t *Train) *int { return &t.Boundary }), def: "epoch",
			doc: "where losses and metrics come out and the validation runs: at each epoch's end, or after each so many steps, and after the last step. Unless `checkpoint.every` is given, a snapshot is taken there, too: see [boundaries](training.md#boundaries)"},
		{name: "batch", kind: positive, at: at(func(t *Train) *int { return &t.Batch }), def: "32",
			doc: "samples in a step; the last step of an epoch may have fewer"},
		{name: "microbatches", kind: positive, at: at(func(t *Train) *int { return &t.Microbatches }), def: "1",
			doc: "number of equal pieces of a batch, whose gradients are added; must divide `batch`"},
		{name: "reduction", kind: enum{ReduceOrder, ReduceTree}, at: at(func(t *Train) *string { return &t.Reduction }), def: ReduceOrder,
			doc: "how the microbatches of a step are summed: gradients, losses, statistics of batch norm. `order`: one after the other. `tree`: by a fixed binary tree over them, so that replicas can sum parts of it; it keeps more sums at once, up to one for each doubling of `microbatches`. From 4 microbatches on, the two round differently"},
		{name: "ema", kind: belowOne, at: at(func(t *Train) *float64 { return &t.EMA }),
			doc: "decay of a [moving average of the weights](training.md#an-average-of-the-weights), such as `0.999`, which validation, `eval` and what follows it take in place of the weights; 0: there is none"},
		{name: "shuffle", kind: boolean{}, at: at(func(t *Train) *bool { return &t.Shuffle }), def: "true",
			doc: "each epoch has its own order, by the seed"},
		{name: "metrics", kind: metricNames{}, at: at(func(t *Train) *[]string { return &t.Metrics }), def: "auto", free: true, kept: true, flag: "metrics", flagTakes: "NAMES", flagTrains: true,
			doc: "the [metrics](metrics.md) that come out at boundaries, of the validation part, with its loss. `auto`: `accuracy` for classes, `rmse`, `mae` and `r2` for numbers, `perplexity` for a text; `all`: every one but those that repeat others or take long; or a list. `eval` computes all of them, and those listed here"},
		{name: "grad_norm", kind: boolean{}, at: at(func(t *Train) *bool { return &t.GradNorm }), def: "false", free: true,
			doc: "each step computes the norm of all its gradients together, for `metrics.jsonl`; with `optimizer.clip_norm`, it does so anyway. The weights are the same"},
		{name: "log_every", kind: counting, at: at(func(t *Train) *int { return &t.LogEvery }), def: "0", free: true,
			doc: "steps between losses read from the device; 0: at boundaries only. Training waits for each; see `watch`"},
		{name: "watch", kind: pauses{}, at: at(func(t *Train) *time.Duration { return &t.Watch }), def: "0", free: true, flag: "watch", flagTakes: "TIME", flagTrains: true, flagAlone: "1s",
			doc: "time between looks at the losses before the next boundary, such as `1s`: the mean over the steps since the look before is shown. The losses are copied out behind a step, which training does not wait for; 0: none are shown"},
		{name: "tensorboard", kind: boolean{}, at: at(func(t *Train) *bool { return &t.TensorBoard }), def: "false", free: true,
			doc: "the numbers of `metrics.jsonl` also go to a file in the run folder that TensorBoard reads"},
	},
}

var partitionSection = &section{
	doc: "How the model is distributed over devices. On devices of one kind, the weights are the same, bit for bit, with any values here; of several kinds, with any that leave each block on its kind.",
	pos: posOf(func(p *Partition) *Pos { return &p.Pos }), shorthand: "plan",
	keys: []*key{
		{name: "plan", kind: enum{PlanGiven, PlanAuto}, at: at(func(p *Partition) *string { return &p.Plan }), def: PlanGiven, blank: true,
			doc: "`partition: auto` is short for `partition: {plan: auto}`. `auto`: the number of stages, the schedule, the devices and, with `train.reduction: tree`, the replicas are those with the shortest predicted step; more devices must gain 3%. `microbatches` and `reduction` stay as they are, and so do the weights. Given from outside, as in `trainer resume --set partition=auto`, it replaces `stages`, `schedule` and `replicas` of the file. `given`: they are as the keys here say"},
		{name: "stages", kind: cut{block: blockName}, at: at(func(p *Partition) *Stages { return &p.Stages }), def: "auto",
			doc: "`auto`: one stage for each device, cut by cost; a number of stages; or the names of each stage's blocks"},
		{name: "schedule", kind: order{enum{"gpipe", "1f1b", "interleaved", "zb-h1"}}, at: at(func(p *Partition) *string { return &p.Schedule }), def: "1f1b",
			doc: "the order of microbatches. `gpipe`: all forward, then all backward; `1f1b`: one forward, one backward; `interleaved`: 1f1b with several stages on each device, by default two where the model has as many blocks; `zb-h1`: 1f1b with the gradients of weights put off, to fill the wait. Or the path of a [schedule's file](devices.md#schedules), relative to the config's folder"},
		{name: "replicas", kind: positive, at: at(func(p *Partition) *int { return &p.Replicas }), def: "1",
			doc: "copies of the model, each on as many of the devices and with a part of each step's microbatches: 2 on `cpu:4` are 2 devices each. More than 1 need `train.reduction: tree`. The weights are the same for any number"},
		{name: "shard", kind: enum{ShardNone, ShardOptimizer}, at: at(func(p *Partition) *string { return &p.Shard }), def: ShardNone,
			doc: "the part of the model that replicas divide among them. `none`: none, and the first replica updates all parameters; `optimizer`: each updates some parameters, or ranges of them, and alone has the optimizer's state of them"},
		{name: "rebalance", kind: enum{RebalanceAuto, RebalanceOff}, at: at(func(p *Partition) *string { return &p.Rebalance }), def: RebalanceAuto,
			doc: "how replicas share microbatches, and the stages of one replica the blocks, while they train. `auto`: by their [measured speed](devices.md#balance), within the memory of their devices; `off`: each keeps its part of the plan. The weights are the same"},
		{name: "recompute", kind: enum{"none", "cheap", "block"}, at: at(func(p *Partition) *string { return &p.Recompute }), def: "none",
			doc: "activations that the backward pass computes again, to save memory. `none`: none; `cheap`: those that take little time (elementwise ops, norms, softmax, dropout's masks); `block`: all but the inputs of blocks"},
		{name: "costs", kind: enum{CostsAuto, CostsFlops, CostsMeasured}, at: at(func(p *Partition) *string { return &p.Costs }), def: CostsAuto, blank: true,
			doc: "where the times come from by which the model is cut. `flops`: from arithmetic and bytes, the same on every machine; `measured`: segments are timed on their devices before planning, and their times are kept for the next plan: see [measured times](devices.md#measured-times). `auto`: `measured` for devices of several kinds, whose speeds only a measurement can compare, and `flops` for those of one kind"},
		{name: "pin", kind: pins{}, at: at(func(p *Partition) *map[string]string { return &p.Pin }),
			doc: "blocks that are to be on a device: `{embed: cpu:0}`. The stages are cut for that, and their order on the devices is chosen; blocks that are not named are where they suit best. `{layers.1.matmul: cpu:1}` puts a [single op](devices.md#single-ops) on a device, and its gradient with it"},
		{name: "chosen", kind: chosenPlan{}, at: at(func(p *Partition) **ChosenPlan { return &p.Chosen }),
			doc: "the plan of a run on several devices, written by the run. While its devices are the same, a resumed run goes on with it; delete it to plan anew"},
	},
}

var devicesSection = &section{
	doc:       "The hardware that the run may use. `devices: cpu:2` is short for `devices: {use: \"cpu:2\"}`, and a list of devices for `devices: {each: [...]}`. In Go, a zero field of `configs.Devices` means the key's default, and `configs.NoTimeout` is `timeout: 0`.",
	pos:       posOf(func(d *Devices) *Pos { return &d.Pos }),
	shorthand: "use",
	list:      "each",
	keys: []*key{
		{name: "use", kind: device, at: at(func(d *Devices) *string { return &d.Use }), def: "cpu:1", flag: "devices", flagTakes: "DEVICES",
			doc: "a kind of device and a count: `cpu`, or `cpu:2`"},
		{name: "threads", kind: whole{0, MaxThreads}, at: at(func(d *Devices) *int { return &d.Threads }), def: "0", flag: "threads", flagTakes: "N",
			doc: "worker threads of all devices together: 4 threads are two for each of cpu:2; 0: one for each core"},
		{name: "memory", kind: memory{}, at: at(func(d *Devices) *Memory { return &d.Memory }), def: "0", flag: "device-memory", flagTakes: "SIZE",
			doc: "memory that each device may use; a percentage is of the most that the plan (of a step, or of `eval` and `predict`) takes on the device without a limit, and a run's `config.yaml` has the bytes; 0: all it has"},
		{name: "each", kind: deviceList{}, at: at(func(d *Devices) *[]DeviceEntry { return &d.Each }),
			doc: "the devices one by one, in place of `use`: `[{use: cpu, memory: 2GiB}, {use: cpu, memory: 512MiB}]`. `threads` and `memory` next to it win over those of the entries"},
		{name: "host_memory", kind: size{least: leastHostMemory}, at: at(func(d *Devices) *int64 { return &d.HostMemory }), def: "0", flag: "host-memory", flagTakes: "SIZE",
			doc: "bound on the host memory for tensors that are not on a device, batches, saves, and decoded images, in bytes or with a unit. Tensors beyond it, and images beyond half of it, go to a file; 0: no bound"},
		{name: "spill_dir", kind: pathText, at: at(func(d *Devices) *string { return &d.SpillDir }), flag: "spill-dir", flagTakes: "DIR",
			doc: "folder of the file for tensors beyond `host_memory`, which must exist; the run folder unless given. The file has no name, and is gone when the process ends"},
		{name: "share_device", kind: boolean{}, at: at(func(d *Devices) *bool { return &d.ShareDevice }), def: "false", flag: "share-device", flagTakes: "bool", flagAlone: "true",
			doc: "several devices of `opencl` may be on one physical device, where there are fewer of these. They share its memory and its time: for tests of pipelines and replicas. `cpu` always shares the cores"},
		{name: "timeout", kind: duration{}, at: at(func(d *Devices) *time.Duration { return &d.Timeout }), def: "5m",
			doc: "the longest that a device may take for one operation, such as a segment or a copy. A device that takes longer counts as lost, within a second or, below 8s, within an eighth of it; 0: no limit"},
		{name: "compile", kind: enum{CompileWait, CompileBeside}, at: at(func(d *Devices) *string { return &d.Compile }), def: CompileWait, flag: "compile", flagTakes: "WHEN",
			doc: "when segments are compiled. `wait`: before the first step. `beside`: while steps run op by op, without the checks of `op_by_op`; once a segment is compiled, the next step runs it so. One that cannot be compiled stays op by op. The weights are the same"},
		{name: "compiled", kind: whole{1, 1 << 20}, at: at(func(d *Devices) *int { return &d.Compiled }), def: "256",
			doc: "[executables](devices.md#executables) that each device keeps though no run uses them any more: those used last"},
		{name: "on_device_loss", kind: enum{OnLossStop, OnLossReplan}, at: at(func(d *Devices) *string { return &d.OnLoss }), def: OnLossStop, blank: true,
			doc: "what a run does once a device is lost, or one of its operations has failed for good (a copy that fails is repeated, up to twice). Where the variables of a completed step are whole, they are saved first. `stop`: it ends. `replan`: it goes on from the newest checkpoint without that device, with the same weights, bit for bit"},
		{name: "op_by_op", kind: modes{enum{OpByOpNone, OpByOpPlain}, enum{OpByOpLog, OpByOpTrace, OpByOpSync}}, at: at(func(d *Devices) *string { return &d.OpByOp }), def: OpByOpNone, blank: true, flag: "op-by-op", flagTakes: "WAY", flagAlone: OpByOpPlain,
			doc: "how the ops of a segment run. `none`: compiled together. Otherwise one at a time, for finding faults: the run ends at the first op whose result is NaN or infinite, and names it. `plain`: no more than that; `log`: each call is printed on standard error, with its time and bytes; `trace`: training is recorded as with `--dump`, in the folder dump of the run folder unless `--dump` names another; `sync`: each op ends before the next is queued; `log,sync`: both, and each result is printed: its first and last elements, the least, the largest and the mean, and how many are NaN or infinite. The weights are the same"},
	},
}

var distributedSection = &section{
	doc: "How [several processes](machines.md) train together.",
	pos: posOf(func(v *Distributed) *Pos { return &v.Pos }),
	keys: []*key{
		{name: "timeout", kind: patience{}, at: at(func(v *Distributed) *time.Duration { return &v.Timeout }), def: "5m",
			doc: "the time after which all processes end, and can be started again, where one sends no sign of life, or where none gets on with its step. Slow data and saves are waited for"},
	},
}

var checkpointSection = &section{
	doc: "When snapshots are taken, and which of them stay. The run's last step has one. A killed run loses the steps since the newest snapshot on disk.",
	pos: posOf(func(c *Checkpoint) *Pos { return &c.Pos }),
	keys: []*key{
		{name: "every", kind: saveInterval{}, at: at(func(c *Checkpoint) *Checkpoint { return c }), def: "0",
			doc: "steps between snapshots, or the time between them such as `10m`; 0: one at each boundary. With `train.boundary: epoch`, each epoch ends with one in any case; with a number of steps there, this key alone decides"},
		{name: "keep", kind: keepSection, at: at(func(c *Checkpoint) *Keep { return &c.Keep })},
		{name: "best", kind: metricName{}, at: at(func(c *Checkpoint) *string { return &c.Best }), def: "val_loss",
			doc: "the metric that ranks snapshots: `val_loss`, or `val_` and one of the [metrics](metrics.md), which is then computed. For some, such as `val_loss`, a lower value is better"},
		{name: "compress", kind: enum{"none", "zstd"}, at: at(func(c *Checkpoint) *string { return &c.Compress }), def: "none", free: true,
			doc: "`zstd` makes the file a little smaller and each save slower: weights are almost random numbers"},
		{name: "staging", kind: staging{}, at: at(func(c *Checkpoint) *int64 { return &c.Staging }), def: "auto", free: true,
			doc: "host memory of a save. `whole`: the state is copied, and training goes on while the copy is saved. A number of bytes: the state is copied piece by piece, and training waits for the disk; the largest variable is one piece, whatever its size. `auto`: `whole` if the state fits in a quarter of the free memory, else that quarter, at most 256MiB"},
	},
}

var keepSection = &section{
	doc: "The snapshots that stay. Damaged ones do not count.",
	pos: posOf(func(k *Keep) *Pos { return &k.Pos }),
	keys: []*key{
		{name: "last", kind: positive, at: at(func(k *Keep) *int { return &k.Last }), def: "3", doc: "number of newest snapshots"},
		{name: "best", kind: counting, at: at(func(k *Keep) *int { return &k.Best }), def: "1", doc: "number of best snapshots, by the metric `checkpoint.best`"},
		{name: "every", kind: counting, at: at(func(k *Keep) *int { return &k.Every }), def: "0", doc: "snapshots at multiples of this many steps stay for good; 0: none"},
	},
}

var earlySection = &section{
	doc: "Ends the run when a validation metric stops improving. Off unless given.",
	pos: posOf(func(e *EarlyStopping) *Pos { return &e.Pos }),
	keys: []*key{
		{name: "metric", kind: metricName{}, at: at(func(e *EarlyStopping) *string { return &e.Metric }), def: "val_loss", doc: "the metric that must improve, named as in `checkpoint.best`"},
		{name: "patience", kind: counting, at: at(func(e *EarlyStopping) *int { return &e.Patience }), required: true,
			doc: "boundaries (`train.boundary`; by default epochs) without improvement after which the run ends; 0: never"},
		{name: "min_delta", kind: nonNeg, at: at(func(e *EarlyStopping) *float64 { return &e.MinDelta }), def: "0",
			doc: "smallest change that counts as an improvement"},
	},
}
