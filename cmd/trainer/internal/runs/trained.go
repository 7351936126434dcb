package runs

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
)

// WeightFlags are the flags that choose trained weights.
type WeightFlags struct {
	best  bool
	last  bool
	which *Which
	init  string
	as    string // how the weights lie in memory; "": as the run has them

	newest bool   // the newest is the default, not the best
	said   uint64 // ID of the checkpoint that was named as used
}

// AddWeightFlags gives c those flags.
func AddWeightFlags(c *cobra.Command) *WeightFlags {
	f := AddChoiceFlags(c)
	c.Flags().StringVar(&f.init, "init", "", "use the weights of a safetensors `FILE[:PREFIX]`, not of a checkpoint")
	c.Flags().StringVar(&f.as, "weights", "", "have the weights in memory as `TYPE`: float32, bf16 (half the bytes) or int8 (a quarter)")
	return f
}

// AddChoiceFlags gives c the flags that choose a checkpoint of which the best is the
// default: see [rundir.Weights].
func AddChoiceFlags(c *cobra.Command) *WeightFlags {
	f := AddCheckpointFlags(c)
	f.newest = false
	c.Flags().BoolVar(&f.last, "last", false, "use the newest checkpoint, not the best (checkpoint.best)")
	c.Flags().Lookup("best").Usage = "use the best checkpoint, as without flags, and none where no checkpoint has the metric checkpoint.best"
	cli.Rare(c, "best")
	return f
}

// AddCheckpointFlags gives c the flags that choose a checkpoint of which the newest is
// the default.
func AddCheckpointFlags(c *cobra.Command) *WeightFlags {
	f := &WeightFlags{which: AddWhich(c, "use the checkpoint with this ID, or of this step"), newest: true}
	c.Flags().BoolVar(&f.best, "best", false, "use the best checkpoint, by the metric checkpoint.best")
	return f
}

// Weights are those that the flags choose in a run folder, or in a file of checkpoints.
func (f *WeightFlags) Weights(dir string) (berth.Weights, error) {
	if err := f.check(); err != nil {
		return berth.Weights{}, err
	}
	id, err := f.which.IDIn(dir)
	w := f.chosen(id)
	w.Dir = dir
	return w, err
}

// chosen are the weights of some folder, where --checkpoint means the ID id.
func (f *WeightFlags) chosen(id uint64) berth.Weights {
	return berth.Weights{Best: f.best, Last: f.last || f.newest && !f.best && id == 0, ID: id, Init: f.init}
}

// Pick finds the checkpoint that the flags choose in db, and warns of those that were
// passed over because they are damaged. chosen reports whether it was named.
func (f *WeightFlags) Pick(c *cobra.Command, db *checkpoint.DB) (s *checkpoint.Snapshot, chosen bool, err error) {
	if err := f.check(); err != nil {
		return nil, false, err
	}
	id, err := f.which.ID(db)
	if err != nil {
		return nil, false, err
	}
	s, skipped, err := rundir.Pick(c.Context(), db, f.chosen(id))
	if err == nil {
		TellSkipped(c, skipped)
	}
	return s, id != 0, err
}

// Stored is how the weights are to lie in memory: see [berth.TrainedOptions].
func (f *WeightFlags) Stored() string { return f.as }

// Given reports whether the flags choose a checkpoint or a file.
func (f *WeightFlags) Given() bool { return f.best || f.last || f.which.Given() || f.init != "" }

// check refuses flags that exclude each other.
func (f *WeightFlags) check() error {
	switch given := f.which.Given(); {
	case f.best && given:
		return cli.Usagef("--best and --checkpoint exclude each other; give one")
	case f.last && given:
		return cli.Usagef("--last and --checkpoint exclude each other; give one")
	case f.best && f.last:
		return cli.Usagef("--best and --last exclude each other; give one")
	case f.init != "" && (f.best || f.last || given):
		return cli.Usagef("--init takes the place of a checkpoint; leave out --best, --last and --checkpoint")
	case !slices.Contains([]string{"", "float32", "bf16", "int8"}, f.as):
		return cli.Usagef("--weights %s: give float32, bf16 or int8", f.as)
	}
	return nil
}

// OpenTrained opens the trained run in a folder, and says on standard error
// which checkpoint it uses: see TellUsed. The caller closes it.
func OpenTrained(c *cobra.Command, cf *ConfigFlags, wf *WeightFlags, dir string, o berth.TrainedOptions) (*berth.Trained, error) {
	if err := wf.check(); err != nil {
		return nil, err
	}
	cfg, err := cf.LoadTrained(c, dir)
	if err != nil {
		return nil, err
	}
	w, err := wf.Weights(dir)
	if err != nil {
		return nil, err
	}
	o.Stored = wf.as
	done := phase.Wait(c.Context(), c.ErrOrStderr(), "planning")
	t, err := berth.OpenTrained(c.Context(), cfg, w, o)
	done()
	if err != nil {
		return nil, err
	}
	TellSkipped(c, t.Used().Skipped)
	for _, text := range t.Notes() {
		fmt.Fprintln(c.ErrOrStderr(), text)
	}
	if u := t.Used(); u.ID != 0 {
		wf.said = u.ID
		fmt.Fprintln(c.ErrOrStderr(), wf.UsedText(u))
	}
	return t, nil
}

// TellWarnings says on standard error what went wrong and did no harm.
func TellWarnings(c *cobra.Command, t *berth.Trained) {
	for _, text := range t.Warnings() {
		cli.Tell(c, c.ErrOrStderr(), text)
	}
}

// TellUsed says on standard error which weights were loaded, unless OpenTrained has
// said so: a file, which may be cut off and so is read first; or another checkpoint,
// since a run that trains meanwhile deleted that one.
func TellUsed(c *cobra.Command, wf *WeightFlags, u berth.Used) {
	switch {
	case u.ID == 0:
		fmt.Fprintln(c.ErrOrStderr(), usedText(u, false, false))
	case u.ID != wf.said:
		fmt.Fprintf(c.ErrOrStderr(), "the run has deleted checkpoint %d meanwhile: %s\n", wf.said, usedText(u, false, wf.last))
	}
}

// UsedText names the weights that are used, and unless the flags chose them the newest
// checkpoint.
func (f *WeightFlags) UsedText(u berth.Used) string {
	return usedText(u, f.best || f.last || f.which.Given(), f.last)
}

// usedText names the weights that are used and, unless they were chosen, the newest
// checkpoint. last says that they were chosen as the newest.
func usedText(u berth.Used, chosen, last bool) string {
	if u.ID == 0 {
		return "using the weights of " + u.File
	}
	used := fmt.Sprintf("using checkpoint %d of step %d", u.ID, u.Step)
	switch {
	case u.Best && u.ID != u.NewestID && !chosen:
		return fmt.Sprintf("%s, the best; the newest is checkpoint %d: --last uses it", used, u.NewestID)
	case u.Best && u.ID == u.NewestID && last:
		return used + ", the newest and the best"
	case u.Best:
		return used + ", the best"
	case u.ID == u.NewestID:
		return used + ", the newest"
	}
	return used
}

// TellSkipped warns of damaged checkpoints that were passed over.
func TellSkipped(c *cobra.Command, skipped []checkpoint.Skipped) {
	for _, s := range skipped {
		fmt.Fprintf(c.ErrOrStderr(), "skipped %v\n", s)
	}
}
