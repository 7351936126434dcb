package configs

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// rules are the checks and defaults that take more than one key. They run in
// order, on a config whose every key is valid by itself.
var rules = []func(*decoder, *Config){
	resolveTask, resolveLoss, resolveContext, resolveLayers, checkLastLayer,
	checkBatch, checkModel, checkSchedule, checkFreeze, checkValidation, checkStages,
}

// resolveTask: sources without the key classify.
func resolveTask(_ *decoder, c *Config) {
	if c.Data.Task == "" {
		c.Data.Task = "classification"
	}
}

// resolveLoss fills the loss in, and refuses one that the target cannot have.
func resolveLoss(d *decoder, c *Config) {
	regression := c.Data.Task == "regression"
	if c.Loss == "" {
		c.Loss = "cross_entropy"
		if regression {
			c.Loss = "mse"
		}
	}
	if c.Data.StandardizeTarget && c.Loss != "mse" {
		d.against([]string{"data.standardize_target"}, "true is for numbers that are predicted, with data.task: regression and loss: mse; leave it out")
	}
	at := []string{"loss", "data.task", "data.source"}
	free := c.Data.Source == "csv" || c.Data.Source == "tensors"
	switch {
	case c.Loss == "cross_entropy" && regression:
		d.against(at, "cross_entropy needs classes, and data.task is regression; use mse or bce, or data.task: classification")
	case c.Loss == "bce" && !regression && free:
		d.against(at, "bce needs a target of 0 and 1 as numbers, and data.task is classification; use cross_entropy, or data.task: regression")
	case c.Loss == "mse" && !regression && free:
		d.against(at, "mse needs numbers, and data.task is classification; use cross_entropy, or data.task: regression")
	case c.Loss != "cross_entropy" && !free:
		d.against(at, "%s does not fit the classes of source %s; use cross_entropy", c.Loss, c.Data.Source)
	}
}

// resolveContext makes the window of a text and the positions of a gpt agree.
func resolveContext(d *decoder, c *Config) {
	const usual = 64
	data, model := &c.Data.Context, &c.Model.Context
	if c.Data.Source == "text" && *data == 0 {
		*data = *model
		if *data == 0 {
			*data = usual
		}
	}
	if c.Model.Preset != "gpt" {
		return
	}
	if *model == 0 {
		*model = *data
		if *model == 0 {
			*model = usual
		}
	}
	if *data > *model {
		d.against([]string{"data.context", "model.context"},
			"windows of %d characters do not fit model.context, %d; raise that or lower this", *data, *model)
	}
}

// resolveLayers names the layers and fills in what depends on the kernel.
func resolveLayers(d *decoder, c *Config) {
	taken := map[string]Pos{}
	eachLayer(c.Model.Layers, "model.layers", func(l *Layer, path string) {
		if l.Name == "" {
			return
		}
		if first, ok := taken[l.Name]; ok {
			d.against([]string{path + ".name"}, "%q names two layers, the other is at %s; a name must be unique", l.Name, first)
		}
		taken[l.Name] = l.Pos
	})
	count := map[string]int{}
	eachLayer(c.Model.Layers, "model.layers", func(l *Layer, path string) {
		resolveWindow(d, l, path)
		for l.Name == "" {
			count[l.Type]++
			name := fmt.Sprintf("%s_%d", l.Type, count[l.Type])
			if _, ok := taken[name]; !ok {
				l.Name = name
			}
		}
	})
}

// eachLayer visits layers and those inside them, in the order they are written.
func eachLayer(layers []Layer, path string, visit func(*Layer, string)) {
	for i := range layers {
		at := fmt.Sprintf("%s[%d]", path, i)
		visit(&layers[i], at)
		eachLayer(layers[i].Body, at+".layers", visit)
	}
}

func resolveWindow(d *decoder, l *Layer, path string) {
	if l.Stride == 0 {
		l.Stride = l.Kernel // of pools; others have no kernel
	}
	switch {
	case l.Padding == samePadding && l.Kernel%2 == 0:
		d.against([]string{path + ".padding"}, "same needs an odd kernel, and it is %d", l.Kernel)
	case l.Padding == samePadding:
		l.Padding = l.Kernel / 2
	case strings.HasSuffix(l.Type, "_pool") && l.Padding > l.Kernel/2:
		d.against([]string{path + ".padding"}, "%d is more than half the kernel, %d", l.Padding, l.Kernel)
	}
	if l.Groups > 0 && l.Channels%l.Groups != 0 {
		d.against([]string{path + ".groups"}, "%d groups do not divide %d channels", l.Groups, l.Channels)
	}
	if len(l.Start) != len(l.Stop) {
		d.against([]string{path + ".stop"}, "has %d, and start has %d; both need one for each axis", len(l.Stop), len(l.Start))
		return
	}
	for i := range l.Start {
		if l.Start[i] >= l.Stop[i] {
			d.against([]string{path + ".stop"}, "axis %d would be empty: it starts at %d and stops at %d", i, l.Start[i], l.Stop[i])
		}
	}
}

// checkLastLayer refuses a last layer that computes what the loss begins with.
func checkLastLayer(d *decoder, c *Config) {
	applied := map[string][]string{"cross_entropy": {"softmax"}, "bce": {"sigmoid", "softmax"}}[c.Loss]
	for i := len(c.Model.Layers) - 1; i >= 0; i-- {
		l, path := &c.Model.Layers[i], fmt.Sprintf("model.layers[%d]", i)
		switch {
		case slices.Contains(applied, l.Type):
			d.fail(l.Pos, path, "%s before loss %s: the loss applies %s itself; leave this layer out (predict still gives probabilities)", l.Type, c.Loss, applied[0])
		case slices.Contains(applied, l.Activation):
			d.fail(l.Pos, path+".activation", "%s before loss %s: the loss applies %s itself; leave the activation out (predict still gives probabilities)", l.Activation, c.Loss, applied[0])
		case slices.Contains([]string{"flatten", "reshape", "transpose", "slice"}, l.Type):
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
		d.against([]string{"model.heads", "model.width"}, "%d heads do not divide a width of %d", m.Heads, m.Width)
	case m.Preset == "cnn" && m.Kernel%2 == 0:
		d.against([]string{"model.kernel"}, "got %d, expected an odd number, so that images keep their size", m.Kernel)
	}
	switch characters := c.Data.Source == "text"; {
	case m.Preset == "gpt" && !characters && c.Data.Source != "tensors":
		d.against([]string{"model.preset"}, "gpt takes tokens, and source %s has none; use source text or tensors, or another preset", c.Data.Source)
	case (m.Preset == "mlp" || m.Preset == "cnn") && characters:
		d.against([]string{"model.preset"}, "%s takes numbers, and source text has characters; use preset gpt, or layers that start with an embedding", m.Preset)
	}
}

func checkSchedule(d *decoder, c *Config) {
	if c.Schedule.MinLR > c.Optimizer.LR {
		d.against([]string{"schedule.min_lr", "optimizer.lr"}, "%v is more than optimizer.lr, %v", c.Schedule.MinLR, c.Optimizer.LR)
	}
}

// checkFreeze: a pattern is one of path.Match.
func checkFreeze(d *decoder, c *Config) {
	for i, p := range c.Optimizer.Freeze {
		if _, err := path.Match(p, ""); err != nil {
			d.against([]string{"optimizer.freeze"}, "item %d, %q, is no pattern; write a name, with * for any characters", i, p)
		}
	}
}

// checkValidation: what watches a metric needs a part to measure it on.
func checkValidation(d *decoder, c *Config) {
	accuracy := c.Loss != "mse"
	if !accuracy && c.Checkpoint.Best == "val_accuracy" {
		d.against([]string{"checkpoint.best"}, "regression has no val_accuracy; use val_loss")
	}
	stop := c.EarlyStopping
	if stop.Patience == 0 {
		return
	}
	if !accuracy && stop.Metric == "val_accuracy" {
		d.against([]string{"early_stopping.metric"}, "regression has no val_accuracy; use val_loss")
	}
	if c.Data.Split == 1 {
		d.against([]string{"early_stopping", "early_stopping.patience"}, "data.split is 1, so nothing validates; lower data.split, or leave early_stopping out")
	}
}

// checkStages: a block stands on one stage.
func checkStages(d *decoder, c *Config) {
	seen := map[string]bool{}
	for _, blocks := range c.Partition.Stages.Blocks {
		for _, b := range blocks {
			if seen[b] {
				d.against([]string{"partition.stages"}, "block %q stands twice; a block is on one stage", b)
			}
			seen[b] = true
		}
	}
}
