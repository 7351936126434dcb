package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// OpenOptions are the options of Open. The zero value opens the config's own devices, for
// the config's own data and model.
type OpenOptions struct {
	// Devices are shared with other runs; nil: the run opens those of its config. Use names
	// those of them that the run may use, in any order; nil: all. A run is planned, and ends with
	// the weights, as if it had opened so many devices of the kind. It may go on on others of the kind.
	Devices *session.Pool
	Use     []device.ID
	// Ranks are the processes that train together, each with the devices of its own config. All call the same methods
	// with the same options, and a failure of one is that of all: see [crew.Verdict]. nil: this process is alone.
	Ranks *crew.Crew
	// AsRanks plans for so many processes in place of Ranks, each of which would bring what devices this one opens. Link is
	// between them; the zero value is [partition.DefaultLink]. Such a run does not train.
	AsRanks int
	Link    partition.Link
	// Costs is the file of measured times of segments; "": the one that
	// costs.DefaultPath names. Measuring hears how far measuring is, from 0 to 1;
	// nil for nobody. Both matter with partition.costs: measured, and for Run.TimeSteps.
	Costs     string
	Measuring func(share float64)
	// Resume is the folder of a run that is to go on: its text is read with the
	// tokenizer that its newest checkpoint holds, whose file need not be there any
	// more, and its table with the kinds, scaling and classes that were found when
	// the run began. "": there is no such run.
	Resume string
	// Overfit is the steps to train on the first batch alone, again and again, in place
	// of the config's length: see [configs.Train]. 0: train on all data.
	Overfit int
	// Data are samples of the program's own, for a config with `data: given`.
	Data *custom.Set
	// Model is a model of the program's own, for a config with `model: {preset: given}`: a
	// models.Stack of layers, or a models.Func.
	Model models.Layer
	// Reading hears what is done to a text and how far, from 0 to 1; nil for
	// nobody.
	Reading func(doing string, share float64)
}

// Open checks the config, reads the data, opens the devices and plans the steps. It copies
// nothing to a device.
func Open(ctx context.Context, c *configs.Config, o OpenOptions) (*Run, error) {
	c, shared, err := o.check(c)
	if err = o.agreeOnConfig(ctx, c, err); err != nil {
		return nil, err
	}
	newest, err := o.newest(ctx, c)
	if err != nil {
		return nil, err
	}
	data, done, err := o.open(ctx, c, newest)
	opened := false
	defer func() {
		if !opened {
			done()
		}
	}()
	if err == nil && o.Overfit > 0 {
		c, data = overfit(c, data, o.Overfit)
	}
	if err == nil {
		err = endedEarly(c, newest)
	}
	if err = o.agreeOnData(ctx, data, err); err != nil {
		return nil, err
	}
	so := session.Options{Shared: shared, Crew: o.Ranks, AsRanks: o.AsRanks, Link: o.Link, Trains: true, Notes: data.Notes, Costs: o.Costs, Measuring: o.Measuring}
	longer := goOnLonger(c, newest, data.Train.Len())
	if longer.note != "" {
		so.Notes = append(slices.Clone(so.Notes), longer.note)
	}
	if note := fitWarmup(c, data.Train.Len()); note != "" {
		so.Notes = append(slices.Clone(so.Notes), note)
	}
	if so.Config, err = o.forRanks(ctx, c); err != nil {
		return nil, err
	}
	so.Partition, so.Info, so.Spec, so.Sizes = c.Partition, &data.Info, specs.Model(c, &data.Info, o.Model), session.NewSizes(c, data.Train.Len())
	r := &Run{Data: data, done: done, longer: longer.than, optim: specs.Optimizer(c, so.Sizes.Total)}
	so.Spec.Averaged = r.optim.Averages()
	_, err = session.Open(so, func(s *session.Session) (err error) {
		r.now, err = r.prepare(ctx, s)
		return err
	})
	if text := so.Sizes.OneStep(); text != "" && errors.Is(err, partition.ErrMemory) {
		err = fmt.Errorf("%w; %s", err, text)
	}
	if err != nil {
		return nil, err
	}
	r.first, opened = r.now.session, true
	return r, nil
}

// check refuses a config, and options that do not go with it.
func (o *OpenOptions) check(c *configs.Config) (*configs.Config, *session.Share, error) {
	c, err := specs.Check(c, o.Model)
	if err != nil {
		return nil, nil, err
	}
	shared, err := session.ShareOf(o.Devices, o.Use)
	if err != nil {
		return nil, nil, err
	}
	if o.Model != nil {
		c.Model.Program = specs.ProgramName()
	}
	return c, shared, o.checkRanks(c)
}

// fitWarmup makes a warm-up shorter that would take the whole run, and returns a note of it.
// The length that the file gives in place of an override's tells the proportion. Where that
// is too short, too, nobody knows for which length the warm-up was meant, as in a copy of a
// config with fewer epochs: it then becomes a tenth of the run. One that an override asks
// for stays, for warmsUp to refuse. So does one whose schedule does not need its end, such
// as constant: it has always been the rate of such a run.
func fitWarmup(c *configs.Config, samples int) (note string) {
	warmup, total := c.Schedule.Warmup, session.NewSizes(c, samples).Total
	if warmup < total || total < 1 || c.Overridden("schedule.warmup") {
		return ""
	}
	fit := func(steps int, why string) string {
		c.Schedule.Warmup = min(total-1, max(1, steps))
		return fmt.Sprintf("schedule.warmup is %d in place of %d, %s", c.Schedule.Warmup, warmup, why)
	}
	if written, shortened := c.Shortened(); shortened {
		if whole := session.NewSizes(written, samples).Total; warmup < whole {
			return fit(warmup*total/whole, fmt.Sprintf("in proportion: the run takes %s, and with the length in the file %s", units.Count(total, "step"), units.Thousands(whole)))
		}
	}
	if endsLater(specs.Optimizer(c, total)) == nil {
		return ""
	}
	return fit(total/10, "a tenth of the run, which takes "+units.Count(total, "step"))
}

// newest is the manifest of the newest checkpoint of a run that goes on; nil where there is none. What is wrong with the
// folder is said later.
func (o *OpenOptions) newest(ctx context.Context, c *configs.Config) (*checkpoint.Manifest, error) {
	switch {
	case o.Resume == "":
		return nil, nil
	case o.Ranks != nil && o.Ranks.Rank() > 0:
		return o.shared(ctx, nil)
	}
	newest := o.read(ctx, c)
	if o.Ranks == nil {
		return newest, nil
	}
	return o.shared(ctx, newest)
}

// read reads the manifest of the newest checkpoint.
func (o *OpenOptions) read(ctx context.Context, c *configs.Config) *checkpoint.Manifest {
	if c.Data.Tokenizer != "" || c.Data.Source == "csv" { // the data is read as it says, so it must be whole
		return restore.Newest(ctx, o.Resume)
	}
	m, err := rundir.Newest(o.Resume)
	if err != nil {
		return nil
	}
	return &m
}

// open reads the data of a run that begins or goes on from that checkpoint. c then names the kinds of a table's columns. The caller
// calls done, which gives back what others may share, also after an error.
func (o *OpenOptions) open(ctx context.Context, c *configs.Config, newest *checkpoint.Manifest) (_ *datasets.Dataset, done func(), _ error) {
	done = func() {}
	d := specs.DataOptions{Given: o.Data, Progress: o.Reading}
	d.Open = func(ctx context.Context, s datasets.Spec) (*datasets.Dataset, error) {
		data, end, err := o.Devices.Data().Open(ctx, s)
		if err == nil {
			done = end
		}
		return data, err
	}
	if o.Resume != "" && c.Data.Tokenizer != "" {
		d.Known, d.Chat = restore.Tokenizer(c, newest), restore.Chat(c, newest)
	}
	if o.Resume != "" && c.Data.Source == "csv" {
		named := *c
		if list, err := specs.NamedColumns(ctx, c); err == nil { // else reading the data fails, too, and says why
			named.Data.Columns = list
		}
		if found, like := restore.Columns(&named, newest); like != nil {
			c.Data.Columns, d.Like, d.GoesOn = found, like, true
		}
	}
	data, err := specs.OpenData(ctx, c, d)
	if _, about := strings.CutPrefix(datasets.Blame(err), "columns."); about && o.Resume != "" {
		err = fmt.Errorf("%w; a run that goes on keeps its columns: restore them, or train anew", err)
	}
	if err == nil && data.Options != nil {
		c.Data.Columns = specs.FoundColumns(data.Options)
	}
	return data, done, err
}

// overfit is a config and its data for training on one batch again and again, for so
// many steps: whether the loss falls to nothing is the first check of a model. The
// learning rate stays where its warm-up ends, nothing validates, and a tenth of the
// steps is from one boundary to the next.
func overfit(c *configs.Config, data *datasets.Dataset, steps int) (*configs.Config, *datasets.Dataset) {
	one := *c
	one.Train.Epochs, one.Train.Steps, one.Train.Boundary = 0, steps, max(1, steps/10)
	one.Schedule = configs.Schedule{Pos: c.Schedule.Pos, Name: "constant", Warmup: min(c.Schedule.Warmup, steps/10)}
	one.EarlyStopping.Patience = 0
	one.Checkpoint.Every, one.Checkpoint.EveryTime = steps, 0
	batch := *data
	batch.Train, batch.Val = data.Train.FirstBatch(c.Train.Batch), nil
	batch.Test = nil
	batch.Info.Fingerprint = fmt.Sprintf("%s%d:%s", restore.OneBatch, batch.Train.Samples(), data.Info.Fingerprint)
	return &one, &batch
}
