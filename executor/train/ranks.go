package train

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/errs"
)

// forRanks is a config as several ranks plan it: unless it says otherwise, with a replica for each, of which each
// updates a part of the parameters. What ranks cannot do is refused.
func (o *OpenOptions) forRanks(c *configs.Config) (*configs.Config, error) {
	if o.Ranks == nil {
		return c, nil
	}
	n := o.Ranks.Size()
	refuse := func(key, text string) error {
		return configs.At(c.Where(key), fmt.Errorf("%w: %s: %s", errs.ErrOptions, key, text))
	}
	switch {
	case o.Devices != nil:
		return c, fmt.Errorf("%w: the devices of several processes cannot be shared by several runs: leave Devices out", errs.ErrOptions)
	case c.Train.Reduction != configs.ReduceTree:
		return c, refuse("train.reduction", fmt.Sprintf("%d processes work on parts of each step, which only a tree can sum: give --set train.reduction=tree (the weights are others), or start one process", n))
	case c.Partition.Plan == configs.PlanAuto:
		return c, refuse("partition.plan", "several processes do not choose a plan by themselves: give --set partition=given, and replicas or stages")
	case c.Partition.Costs == configs.CostsMeasured:
		return c, refuse("partition.costs", "several processes would measure other times, and each cut the model in its own way: give --set partition.costs=flops")
	case c.Devices.OnLoss == configs.OnLossReplan:
		return c, refuse("devices.on_device_loss", "several processes do not go on without a device: give --set devices.on_device_loss=stop, and start them again from the newest checkpoint")
	case session.ByPercentage(c.Devices):
		return c, refuse("devices.memory", "several processes do not know a percentage of their plan: give a number of bytes")
	}
	own := *c
	own.Partition.Chosen = nil
	if own.Partition.Costs = configs.CostsFlops; !o.says(c, "partition.replicas") {
		own.Partition.Replicas = n
	}
	if !o.says(c, "partition.shard") && own.Partition.Replicas > 1 {
		own.Partition.Shard = configs.ShardOptimizer
	}
	if m := c.Train.Microbatches; own.Partition.Replicas > m {
		return c, refuse("train.microbatches", fmt.Sprintf("%d processes with a replica each share the microbatches of a step, and there are %d: start at most %d, or give --set train.microbatches=%d (the weights are others)",
			own.Partition.Replicas, m, m, own.Partition.Replicas))
	}
	return &own, nil
}

// says reports whether a config's user has given a key. The config of a run folder has all keys.
func (o *OpenOptions) says(c *configs.Config, key string) bool {
	return c.Overridden(key) || o.Resume == "" && c.Given(key)
}

// agreeOnConfig has all ranks compare what they are to do.
func (o *OpenOptions) agreeOnConfig(ctx context.Context, c *configs.Config, err error) error {
	if o.Ranks == nil {
		return err
	}
	facts, err := o.facts(c, err)
	return o.Ranks.Agree(ctx, "its config", err, facts...)
}

// facts are what the configs of all ranks have in common. Devices are each rank's own, and so are the paths of data,
// whose fingerprints are compared.
func (o *OpenOptions) facts(c *configs.Config, err error) ([]crew.Fact, error) {
	if err != nil {
		return nil, err
	}
	list, err := c.AllSettings()
	if err != nil {
		return nil, err
	}
	var facts []crew.Fact
	add := func(name, value, remedy string) {
		facts = append(facts, crew.Fact{Name: name, Value: value, Remedy: remedy})
	}
	for _, s := range list {
		if strings.HasPrefix(s.Key, "devices.") && s.Key != "devices.op_by_op" && s.Key != "devices.compile" || s.Key == "data.path" {
			continue
		}
		add(s.Key, s.Value, "give all ranks the same config, and the same flags for it")
	}
	add("--overfit-batch", strconv.Itoa(o.Overfit), "give it to all ranks")
	add("--resume", strconv.FormatBool(o.Resume != ""), "give it to all ranks")
	return facts, nil
}

// shared is what rank 0 has read of the run folder: others may not see it.
func (o *OpenOptions) shared(ctx context.Context, m *checkpoint.Manifest) (*checkpoint.Manifest, error) {
	b, err := json.Marshal(m)
	if err == nil {
		b, err = o.Ranks.Share(ctx, "the newest checkpoint", b)
	}
	if err != nil {
		return nil, err
	}
	m = nil
	return m, json.Unmarshal(b, &m)
}

// agreeOnData has all ranks compare their data.
func (o *OpenOptions) agreeOnData(ctx context.Context, data *datasets.Dataset, err error) error {
	if o.Ranks == nil {
		return err
	}
	f := crew.Fact{Name: "the data's fingerprint", Remedy: "give all ranks the same files, in the same order (data.path)"}
	if err == nil {
		f.Value = data.Info.Fingerprint
	}
	return o.Ranks.Agree(ctx, "its data", err, f)
}
