package configs

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/internal/units"
)

// rules are the checks and defaults over more than one key. They run in order,
// on a config whose keys are each valid.
var rules = []func(*decoder, *Config){
	resolveDevices, resolveLength, resolveTask, resolveSplit, resolveLoss, checkWeights, checkMixup, checkPositive, resolveBuckets, resolveContext, checkTokenizer, resolveLayers, checkLastLayer,
	checkBatch, checkModel, checkSchedule, checkFreeze, checkTargets, checkValidation, checkStages, checkPlan, checkReplicas, checkOrder,
}

// resolveLength refuses two lengths of a run. One that comes from outside the file
// replaces the file's.
func resolveLength(d *decoder, c *Config) {
	epochs, steps := d.where["train.epochs"], d.where["train.steps"]
	switch {
	case c.Train.Epochs == 0 || c.Train.Steps == 0:
	case epochs.Line == 0 && steps.Line > 0:
		c.Train.Steps = 0
	case steps.Line == 0 && epochs.Line > 0:
		c.Train.Epochs = 0
	default:
		d.against([]string{"train.steps"}, "train.steps and train.epochs exclude each other; give one of the two")
	}
}

// resolveTask sets the task of sources that have no such key.
func resolveTask(_ *decoder, c *Config) {
	if c.Data.Task == "" {
		c.Data.Task = "classification"
	}
}

// resolveLoss sets the default loss, and refuses a loss that does not fit the
// target.
func resolveLoss(d *decoder, c *Config) {
	task := c.Data.Task
	numbers := task != "classification"
	if c.Loss == "" {
		c.Loss = map[string]string{"regression": "mse", taskMultilabel: "bce"}[task]
		c.Loss = cmp.Or(c.Loss, "cross_entropy")
		lossSection.begin(c.Loss, c)
	}
	loss := c.loss()
	if c.Data.StandardizeTarget && (loss.Classes || loss.Bits) {
		if c.Given("data.standardize_target") {
			d.against([]string{"data.standardize_target"}, "got true, which needs data.task: regression and a loss of numbers, such as mse, l1 or huber; leave standardize_target out")
		}
		c.Data.StandardizeTarget = false
	}
	at := []string{"loss", "data.task", "data.source"}
	keys, _ := dataSection.active(c.Data.Source)
	either := slices.ContainsFunc(keys, func(k *key) bool { return k.name == "task" }) // both tasks are possible
	switch {
	case task == taskMultilabel && !loss.Bits:
		d.against(at, "%s does not fit data.task: multilabel, whose labels are 0 or 1; use bce", c.Loss)
	case loss.Classes && numbers:
		d.against(at, "%s needs classes, but data.task is regression; use mse, l1, huber or bce, or data.task: classification", c.Loss)
	case loss.Bits && !numbers && either && c.Data.Source == "csv":
		d.against(at, "%s needs numbers from 0 to 1 as targets, but data.task is classification; use cross_entropy, or data.task: multilabel for labels that are 0 or 1, or regression", c.Loss)
	case loss.Bits && !numbers && either:
		d.against(at, "%s needs numbers from 0 to 1 as targets, but data.task is classification; use cross_entropy, or data.task: regression", c.Loss)
	case !loss.Classes && !numbers && either:
		d.against(at, "%s needs numbers as targets, but data.task is classification; use cross_entropy, or data.task: regression", c.Loss)
	case !loss.Classes && !either:
		d.against(at, "%s does not fit source %s, whose targets are classes; use cross_entropy", c.Loss, c.Data.Source)
	}
	if n := 1 + len(c.Data.MoreLabels); n > 1 && !numbers {
		d.against([]string{"data.label"}, "%d labels, but data.task is classification, which has one; add data.task: regression for numbers, or multilabel for labels that are 0 or 1", n)
	}
}

// checkWeights refuses weights of classes that are the tokens of a text.
func checkWeights(d *decoder, c *Config) {
	v, _ := registry.Get(c.LossKeys.Keys, "class_weights")
	if w, ok := v.(registry.Weights); ok && w.Given() && c.Data.Texts() {
		d.against([]string{"loss.class_weights"}, "the classes of source %s are the tokens of a text, which all count alike; leave it out", c.Data.Source)
	}
}

// checkPositive refuses the name of a class where the target is none.
func checkPositive(d *decoder, c *Config) {
	if c.Data.Positive != "" && !c.loss().Classes {
		d.against([]string{"data.positive"}, "it names one of two classes, and with loss %s the target is numbers; leave it out", c.Loss)
	}
}

// resolveContext sets the length of a text's windows and the positions of a gpt,
// each from the other if only one is given, and refuses windows that are too
// long.
func resolveContext(d *decoder, c *Config) {
	const usual = 64
	data, model := &c.Data.Context, &c.Model.Context
	if c.Data.Source == "text" && *data == 0 {
		*data = *model
		if *data == 0 {
			*data = usual
		}
	}
	name := "model.context"
	switch {
	case c.Model.IsLlama():
		name = "model.max_position_embeddings"
	case c.Model.Preset != "gpt":
		return
	}
	if *model == 0 {
		*model = *data
		if *model == 0 {
			*model = usual
		}
	}
	if *data > *model {
		d.against([]string{"data.context", "data.buckets", name},
			"windows of %d tokens do not fit a %[3]s of %[2]d; lower data.context or raise %[3]s", *data, *model, name)
	}
}

// The fewest and the most tokens that are learnt from a text.
const leastVocab, mostVocab = 257, 1 << 20

// checkTokenizer refuses a number of tokens that cannot be learnt.
func checkTokenizer(d *decoder, c *Config) {
	number, learns := strings.CutPrefix(c.Data.Tokenizer, tokenizerLearnt)
	if n, err := strconv.Atoi(number); learns && (err != nil || n < leastVocab || n > mostVocab) {
		d.against([]string{"data.tokenizer"}, "got %q, expected a number of tokens from %d (one for each byte, and one for the end of a text) to %d, as in bpe:4096", number, leastVocab, mostVocab)
	}
}

// resolveLayers names the layers that have no name.
func resolveLayers(d *decoder, c *Config) {
	taken := map[string]Pos{}
	eachLayer(c.Model.Layers, "model.layers", func(l *Layer, path string) {
		if l.Name == "" {
			return
		}
		if first, ok := taken[l.Name]; ok {
			d.against([]string{path + ".name"}, "%q is also the name of the layer at %s; give each layer its own", l.Name, first)
		}
		taken[l.Name] = l.Pos
	})
	count := map[string]int{}
	eachLayer(c.Model.Layers, "model.layers", func(l *Layer, _ string) {
		for l.Name == "" {
			count[l.Type]++
			name := fmt.Sprintf("%s_%d", l.Type, count[l.Type])
			if _, ok := taken[name]; !ok {
				l.Name = name
			}
		}
	})
}

// eachLayer visits layers, and the layers inside them, in the order of the file.
func eachLayer(layers []Layer, path string, visit func(*Layer, string)) {
	for i := range layers {
		at := fmt.Sprintf("%s[%d]", path, i)
		visit(&layers[i], at)
		eachLayer(layers[i].Body, at+".layers", visit)
	}
}

// checkLastLayer refuses a last layer that computes what the loss begins with.
func checkLastLayer(d *decoder, c *Config) {
	applied := c.loss().Applies
	for i := len(c.Model.Layers) - 1; i >= 0; i-- {
		l, path := &c.Model.Layers[i], fmt.Sprintf("model.layers[%d]", i)
		activation, _ := registry.Get(l.Keys, "activation")
		own, _ := activation.(string)
		switch e, _ := registry.Find(registry.Layer, l.Type); {
		case slices.Contains(applied, l.Type):
			d.fail(l.Pos, path, "%s before loss %s: the loss applies %s itself; leave this layer out (predict still gives probabilities)", l.Type, c.Loss, applied[0])
		case slices.Contains(applied, own):
			d.fail(l.Pos, path+".activation", "%s before loss %s: the loss applies %s itself; leave the activation out (predict still gives probabilities)", own, c.Loss, applied[0])
		case e.Moves:
			continue // the numbers come from the layer before
		}
		return
	}
}

func checkBatch(d *decoder, c *Config) {
	if t := c.Train; t.Batch%t.Microbatches != 0 {
		d.against([]string{"train.microbatches", "train.batch"},
			"%d microbatches do not divide a batch of %d; choose a divisor of the batch", t.Microbatches, t.Batch)
	}
}

func checkModel(d *decoder, c *Config) {
	m := c.Model
	switch {
	case m.Preset == "gpt" && m.Width%m.Heads != 0:
		d.against([]string{"model.heads", "model.width"}, "%d heads do not divide a width of %d; use a divisor", m.Heads, m.Width)
	case m.IsLlama():
		checkLlama(d, &m)
	case m.Preset == "vit":
		if heads, width := m.ViT(); width%heads != 0 {
			d.against([]string{"model.heads", "model.width", "model.size"}, "%d heads do not divide a width of %d; use a divisor", heads, width)
		}
	case m.Preset == "cnn" && m.Kernel%2 == 0:
		d.against([]string{"model.kernel"}, "got %d, expected an odd number, so that images keep their size", m.Kernel)
	}
	switch characters := c.Data.tokens(); {
	case (m.Preset == "gpt" || m.IsLlama()) && !characters && c.Data.Source != "tensors" && c.Data.Source != SourceGiven && c.Data.Version == 0:
		d.against([]string{"model.preset"}, "%s takes tokens, but source %s has none; use source text or tensors, or another preset", m.Preset, c.Data.Source)
	case slices.Contains([]string{"mlp", "cnn", "resnet", "vit"}, m.Preset) && characters:
		d.against([]string{"model.preset"}, "%s takes numbers, but source %s has tokens; use preset gpt, or layers that start with an embedding", m.Preset, c.Data.Source)
	}
}

// checkLlama refuses heads that do not fit.
func checkLlama(d *decoder, m *Model) {
	l, size := m.Llama, m.Llama.HeadSize
	switch {
	case size == 0 && m.Width%m.Heads != 0:
		d.against([]string{"model.num_attention_heads", "model.hidden_size"}, "%d heads do not divide a width of %d; use a divisor, or give head_dim", m.Heads, m.Width)
		return
	case size == 0:
		size = m.Width / m.Heads
	}
	switch {
	case l.KVHeads > 0 && m.Heads%l.KVHeads != 0:
		d.against([]string{"model.num_key_value_heads", "model.num_attention_heads"}, "%d heads of queries cannot share %d of keys and values; use a divisor", m.Heads, l.KVHeads)
	case size%2 != 0:
		d.against([]string{"model.head_dim", "model.num_attention_heads", "model.hidden_size"}, "heads of %d numbers cannot turn with their positions, which takes pairs; use an even number", size)
	case l.Scaling.Type == "llama3" && l.Scaling.High <= l.Scaling.Low:
		d.against([]string{"model.rope_scaling.high_freq_factor", "model.rope_scaling.low_freq_factor"}, "a high_freq_factor of %v is not above a low_freq_factor of %v", l.Scaling.High, l.Scaling.Low)
	case l.Scaling.Type == "dynamic" && size < 4:
		d.against([]string{"model.rope_scaling.rope_type", "model.head_dim"}, "rope_type dynamic takes heads of at least 4 numbers, and these have %d", size)
	}
}

// checkSchedule asks a schedule whether it goes with the learning rate and the warm-up.
func checkSchedule(d *decoder, c *Config) {
	if k, asks := c.Schedule.Keys.(interface{ CheckWarmup(warmup int) error }); asks {
		if err := k.CheckWarmup(c.Schedule.Warmup); err != nil {
			d.against([]string{"schedule.warmup", "schedule.name"}, "%v", err)
		}
	}
	k, asks := c.Schedule.Keys.(interface{ CheckRate(lr float64) error })
	if !asks {
		return
	}
	err := k.CheckRate(c.Optimizer.LR)
	if wrong, ok := errors.AsType[*registry.KeyError](err); ok {
		d.against([]string{"schedule." + wrong.Key, "optimizer.lr"}, "%s", wrong.Text)
	} else if err != nil {
		d.against([]string{"schedule", "optimizer.lr"}, "%v", err)
	}
}

// checkFreeze refuses patterns that path.Match does not take.
func checkFreeze(d *decoder, c *Config) {
	for i, p := range c.Optimizer.Freeze {
		if _, err := path.Match(p, ""); err != nil {
			d.against([]string{"optimizer.freeze"}, "item %d, %q, is not a valid pattern; write a parameter's name, with * for any characters", i, p)
		}
	}
}

// checkTargets refuses an adapter of nothing, and patterns that path.Match does not take.
func checkTargets(d *decoder, c *Config) {
	if c.Adapts() && len(c.Adapt.LoRA.Targets) == 0 {
		d.against([]string{"adapt.lora.targets"}, "it is empty; give the names of layers or projections, such as [q_proj, v_proj]")
	}
	for i, p := range c.Adapt.LoRA.Targets {
		if _, err := path.Match(p, ""); err != nil {
			d.against([]string{"adapt.lora.targets"}, "item %d, %q, is not a valid pattern; write a name such as q_proj, with * for any characters", i, p)
		}
	}
}

// checkValidation refuses metrics that the run cannot have.
func checkValidation(d *decoder, c *Config) {
	task := c.task()
	check := func(path, name string) {
		m, known := metrics.Find(MetricOf(name))
		if known && !m.Fits(task) {
			d.against([]string{path}, "%s cannot be used with %s, whose metrics are %s", name, c.judged(), metricsOf(task))
		}
	}
	for _, name := range c.Train.Metrics {
		check("train.metrics", name)
	}
	check("checkpoint.best", c.Checkpoint.Best)
	stop := c.EarlyStopping
	if stop.Patience == 0 {
		return
	}
	check("early_stopping.metric", stop.Metric)
	if !c.Data.Validates() {
		how, cure := "data.split: 1", "lower data.split"
		if c.Data.Division != nil {
			how, cure = "data.split.val: 0", "raise it"
		}
		d.against([]string{"early_stopping", "early_stopping.patience"}, "%s leaves no samples for validation; %s, or leave early_stopping out", how, cure)
	}
}

// task is the kind of the model's answers, as far as a config decides it.
func (c *Config) task() metrics.Task {
	loss := c.loss()
	t := metrics.Task{Kind: metrics.Numbers, Right: loss.Accuracy, Text: c.Data.Texts()}
	switch {
	case loss.Bits:
		t.Kind = metrics.Bits
	case loss.Classes:
		t.Kind = metrics.Classes
	}
	return t
}

// judged is, in errors, the key that decides which metrics fit.
func (c *Config) judged() string {
	if c.Data.Texts() {
		return "source " + c.Data.Source
	}
	return "loss " + c.Loss
}

// checkStages refuses a block on two stages.
func checkStages(d *decoder, c *Config) {
	seen := map[string]bool{}
	for _, blocks := range c.Partition.Stages.Blocks {
		for _, b := range blocks {
			if seen[b] {
				d.against([]string{"partition.stages"}, "block %q is listed twice; a block is on one stage", b)
			}
			seen[b] = true
		}
	}
}

// checkPlan refuses keys that are chosen, and forgets the plan that a run chose once
// somebody asks for another one. The devices that it was chosen for are kept: other keys
// give way where the run goes on with others.
func checkPlan(d *decoder, c *Config) {
	if c.Partition.Plan == PlanAuto {
		checkChosen(d, c)
	}
	for _, key := range []string{"stages", "schedule", "replicas", "costs", "pin", "plan"} {
		if at, given := d.where["partition."+key]; given && at.Line == 0 && d.where["partition.chosen"].Line > 0 && c.Partition.Chosen != nil {
			whole := *c.Partition.Chosen
			c.Partition.Chosen = &ChosenPlan{Devices: whole.Devices, Replicas: whole.Replicas}
		}
	}
}

// checkChosen refuses keys that plan: auto chooses. An override of plan replaces those
// of the file instead: a run's config has them all.
func checkChosen(d *decoder, c *Config) {
	p := &c.Partition
	for _, key := range []string{"partition.stages", "partition.schedule", "partition.replicas"} {
		at, given := d.where[key]
		switch {
		case !given || isDefault(c, key):
		case at.Line == 0 || d.where["partition.plan"].Line > 0:
			d.fail(at, key, "partition.plan: auto chooses it; leave it out, or set partition.plan: given")
		case key == "partition.stages":
			p.Stages = Stages{}
		case key == "partition.schedule":
			p.Schedule = "1f1b"
		default:
			p.Replicas = 1
		}
	}
}

// isDefault reports whether a key that is chosen has its default, as in the config of
// a run.
func isDefault(c *Config, key string) bool {
	p := c.Partition
	switch key {
	case "partition.stages":
		return p.Stages.Count == 0 && p.Stages.Blocks == nil
	case "partition.schedule":
		return p.Schedule == "1f1b"
	}
	return p.Replicas == 1
}

// checkReplicas refuses replicas that cannot share a step.
func checkReplicas(d *decoder, c *Config) {
	switch r := c.Partition.Replicas; {
	case r > c.Train.Microbatches:
		d.against([]string{"partition.replicas", "train.microbatches"},
			"%d replicas share the microbatches of a step, and train.microbatches is %d; use at most as many replicas, or more microbatches", r, c.Train.Microbatches)
	case r > 1 && c.Train.Reduction != ReduceTree:
		d.against([]string{"partition.replicas", "train.reduction"},
			"%d replicas cannot sum microbatches in their order; set train.reduction: tree (the weights are others), or use 1", r)
	}
}

// checkOrder refuses a schedule of the file's own for another number of
// microbatches or stages.
func checkOrder(d *decoder, c *Config) {
	s, err := c.Partition.Order()
	if err != nil || s == nil {
		return // an error has been reported
	}
	at := []string{"partition.schedule"}
	if s.Microbatches != c.Train.Microbatches {
		d.against(at, "the schedule %q is for %s, but train.microbatches is %d; make them equal", s.Name, units.Count(s.Microbatches, "microbatch"), c.Train.Microbatches)
	}
	if r := max(1, c.Partition.Replicas); r != s.Replicas {
		d.against(at, "the schedule %q is for %s, but partition.replicas is %d; make them equal", s.Name, units.Count(s.Replicas, "replica"), r)
	}
	if n := max(c.Partition.Stages.Count, len(c.Partition.Stages.Blocks)); n > 0 && n != s.Stages {
		d.against(at, "the schedule %q is for %s, but partition.stages gives %d; make them equal", s.Name, units.Count(s.Stages, "stage"), n)
	}
}
