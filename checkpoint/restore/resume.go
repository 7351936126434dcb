package restore

import (
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/models"
)

// Resume finds where a run goes on from a checkpoint, and the steps that the
// whole run takes. A change of config, data or kernels since is refused or, if
// allowed, noted. After the loss of a device, the kernels that are left are taken.
func (r *Run) Resume(snap *checkpoint.Snapshot, allowed bool, note func(string)) (at runstate.Progress, total int, err error) {
	m := &snap.Manifest
	what, err := r.changed(m)
	if err != nil {
		return at, 0, err
	}
	if what != "" && r.otherFeatures(m) {
		return at, 0, fmt.Errorf("%w: %s: columns that are used otherwise are other features, for which the weights do not fit, also with --allow-changed: restore them, or train anew", initial.ErrChanged, what)
	}
	if what != "" {
		if text := initial.Misfit(snap, r.Graph.Vars); text != "" {
			return at, 0, fmt.Errorf("%w: %s; %s: the weights do not fit, also with --allow-changed: %s", initial.ErrChanged, what, text, r.remedy(m))
		}
		if r.otherBase(m) {
			return at, 0, fmt.Errorf("%w: %s: the adapter was trained beside a base that was stored so, also with --allow-changed: restore it, or train anew", initial.ErrChanged, what)
		}
	}
	if what != "" && !allowed {
		if IsOneBatch(m.Fingerprints[dataPrint]) {
			return at, 0, fmt.Errorf("%w: %s: begin another run, or allow the change (--allow-changed)", initial.ErrChanged, what)
		}
		return at, 0, fmt.Errorf("%w: %s: restore it, begin another run, or allow the change (--allow-changed)", initial.ErrChanged, what)
	}
	st, err := runstate.Of(m)
	if err != nil {
		return at, 0, err
	}
	at = st.Progress
	at.Step, at.Epoch, at.Index, at.Saved = m.Step, m.Epoch, m.Index, m.Step
	otherwise := what != "" && r.trainedOtherwise(m)
	if otherwise && at.Over(r.Config.Train) {
		return at, 0, fmt.Errorf("%w: %s: the run is finished, so no step would be taken with that: train for more epochs or steps, or begin another run", initial.ErrChanged, what)
	}
	if kernels := r.otherKernels(m); r.LostDevices && kernels != "" {
		note(kernels)
	}
	if what != "" {
		note("going on although " + what)
		moved := at.Realign(m.Fingerprints[dataPrint] == r.Data, r.Batch, r.Samples)
		if moved {
			note(fmt.Sprintf("the rest of epoch %d is left out, since its batches are others now", at.Epoch))
		}
		if moved || !r.sameRings(snap) {
			at.Lost = m.Step
		}
	}
	if otherwise && at.Anew() {
		note("checkpoint.best and early stopping begin anew: the checkpoints so far were trained otherwise")
	}
	if positiveChange(r.Config, m) != nil && !at.Over(r.Config.Train) && at.AnotherPositive(r.Config) {
		note("checkpoint.best and early stopping begin anew where they are about the positive class")
	}
	if ring, ok := snap.Tensor(models.GradNormRing); !ok || ring.Meta.Bytes() != int64(4*r.Pace.Longest()) {
		at.NormsLost = m.Step
	}
	total = at.Resume(r.Pace)
	return at, total, nil
}

// remedy says what to do about a change for which a checkpoint's weights do not fit.
func (r *Run) remedy(m *checkpoint.Manifest) string {
	then, err := configs.Parse("config", m.Config, configs.Overlay{})
	switch now := r.Config; {
	case err != nil:
	case !then.Adapts() && now.Adapts():
		return "an adapter is trained in a run of its own, beside weights in a file: write them with trainer export RUN --out base.safetensors, and train a config that has adapt.lora with trainer train CONFIG --init base.safetensors"
	case then.Model.Preset == "gpt" && then.Model.Context < now.Model.Context:
		return "a table of learnt positions does not grow: leave model.context as it was, and give data.context at most as many tokens, or train anew"
	}
	return "restore it, or train anew"
}

// otherBase reports whether the base of the adapter in a checkpoint was stored otherwise, so that its
// numbers were others.
func (r *Run) otherBase(m *checkpoint.Manifest) bool {
	then, err := configs.Parse("config", m.Config, configs.Overlay{})
	return err == nil && then.Adapts() && then.Adapt.Base != r.Config.Adapt.Base
}

// sameRings reports whether the losses that a checkpoint's steps recorded are at
// the places of this run's steps, and of as many samples.
func (r *Run) sameRings(snap *checkpoint.Snapshot) bool {
	then, err := configs.Parse("config", snap.Manifest.Config, configs.Overlay{})
	ring, ok := snap.Tensor(models.LossRing)
	return err == nil && ok && then.Train.Batch == r.Asked && ring.Meta.Bytes() == int64(4*r.Pace.Longest())
}
