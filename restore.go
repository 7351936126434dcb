package berth

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/models"
)

// The fingerprints of a checkpoint.
const (
	configPrint   = "config"
	dataPrint     = "data"
	numericsPrint = "numerics" // older checkpoints have none
)

// fingerprints tell whether a resumed run is the same run.
func (s *setup) fingerprints() (map[string]string, error) {
	text, err := s.config.Identity()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	prints := map[string]string{configPrint: hex.EncodeToString(sum[:]), dataPrint: s.info.Fingerprint, numericsPrint: s.numerics()}
	model, err := s.modelPrint()
	if err != nil {
		return nil, err
	}
	for print, text := range map[string]string{opsPrint: addedOps(s.plan.Graph), metricsPrint: addedMetrics(s.config), modelPrint: model} {
		if text != "" {
			prints[print] = text
		}
	}
	return prints, nil
}

// short is the beginning of a fingerprint.
func short(print string) string { return print[:min(12, len(print))] }

// resume finds where a run goes on from a checkpoint, and the steps that the
// whole run takes. A change of config, data or kernels since is refused or, if
// allowed, noted. After the loss of a device, the kernels that are left are taken.
func (s *setup) resume(snap *checkpoint.Snapshot, allowed bool, note func(string)) (at runstate.Progress, total int, err error) {
	m := &snap.Manifest
	what, err := s.changed(m)
	if err != nil {
		return at, 0, err
	}
	if what != "" && !allowed {
		if ofOneBatch(m.Fingerprints[dataPrint]) {
			return at, 0, fmt.Errorf("%w: %s: begin another run, or allow the change (--allow-changed)", ErrChanged, what)
		}
		return at, 0, fmt.Errorf("%w: %s: restore it, begin another run, or allow the change (--allow-changed)", ErrChanged, what)
	}
	st, err := runstate.Of(m)
	if err != nil {
		return at, 0, err
	}
	at = st.Progress
	at.Step, at.Epoch, at.Index, at.Saved = m.Step, m.Epoch, m.Index, m.Step
	if kernels := s.otherKernels(m); s.lost && kernels != "" {
		note(kernels)
	}
	if what != "" {
		note("going on although " + what)
		moved := at.Realign(m.Fingerprints[dataPrint] == s.info.Fingerprint, s.sizes.batch, s.sizes.samples)
		if moved {
			note(fmt.Sprintf("the rest of epoch %d is left out, since its batches are others now", at.Epoch))
		}
		if moved || !s.sameRings(snap) {
			at.Lost = m.Step
		}
	}
	if ring, ok := snap.Tensor(models.GradNormRing); !ok || ring.Meta.Bytes() != int64(4*s.sizes.pace.Longest()) {
		at.NormsLost = m.Step
	}
	total = at.Resume(s.sizes.pace)
	return at, total, nil
}

// sameRings reports whether the losses that a checkpoint's steps recorded are at
// the places of this run's steps, and of as many samples.
func (s *setup) sameRings(snap *checkpoint.Snapshot) bool {
	then, err := configs.Parse("config", snap.Manifest.Config, configs.Overlay{})
	ring, ok := snap.Tensor(models.LossRing)
	return err == nil && ok && then.Train.Batch == s.sizes.asked && ring.Meta.Bytes() == int64(4*s.sizes.pace.Longest())
}

// changed says how the run's config, data or kernels differ from a checkpoint's; ""
// where they do not. Moving the data is no change.
func (s *setup) changed(m *checkpoint.Manifest) (string, error) {
	prints, err := s.fingerprints()
	if err != nil {
		return "", err
	}
	if untrained(m) {
		return s.otherModel(m)
	}
	sameData := m.Fingerprints[dataPrint] == prints[dataPrint]
	var said []string
	if m.Fingerprints[configPrint] != prints[configPrint] {
		list, err := changesSince(s.config, m)
		if sameData {
			list = withoutPath(list)
		}
		if err != nil {
			said = append(said, err.Error())
		} else if len(list) > 0 {
			said = append(said, configs.SummaryOfChanges(list))
		}
	}
	if !sameData {
		said = append(said, otherData(m, prints[dataPrint]))
	}
	model, err := s.otherOwnModel(m)
	if err != nil {
		return "", err
	}
	for _, text := range []string{model, otherOps(m), otherMetrics(m)} {
		if text != "" {
			said = append(said, text)
		}
	}
	if kernels := s.otherKernels(m); kernels != "" && !s.lost {
		said = append(said, kernels)
	}
	return strings.Join(said, "; "), nil
}

// importedPrint stands for the fingerprint of the data of an imported model, which is
// not known.
const importedPrint = "imported"

// untrained reports whether a checkpoint is of a model that was imported, and not
// trained since.
func untrained(m *checkpoint.Manifest) bool { return m.Fingerprints[dataPrint] == importedPrint }

// otherModel says how the model differs from an imported one; "" where it does not. The
// rest of the config is about training, which begins now.
func (s *setup) otherModel(m *checkpoint.Manifest) (string, error) {
	list, err := changesSince(s.config, m)
	if err != nil {
		return "", err
	}
	return configs.SummaryOfChanges(ofModel(list)), nil
}

// ofModel leaves changes of the model and its tokens.
func ofModel(list []configs.Change) (left []configs.Change) {
	for _, c := range list {
		section, _, _ := strings.Cut(c.Key, ".")
		if section == "model" && c.Key != "model.dropout" || c.Key == "data.source" || c.Key == "data.tokenizer" {
			left = append(left, c)
		}
	}
	return left
}

// otherData says that the data with a fingerprint is not a checkpoint's.
func otherData(m *checkpoint.Manifest, now string) string {
	then := m.Fingerprints[dataPrint]
	if ofOneBatch(then) {
		return fmt.Sprintf("checkpoint %d was trained on one batch alone, to check the model, and the data is more than that", m.ID)
	}
	return fmt.Sprintf("the data is not what checkpoint %d was trained on (fingerprint %s then, %s now)", m.ID, short(then), short(now))
}

// otherKernels says that the devices compute with other kernels than a checkpoint's
// did; "" where they do not, or where it does not record them.
func (s *setup) otherKernels(m *checkpoint.Manifest) string {
	then, now := m.Fingerprints[numericsPrint], s.numerics()
	if then == "" || then == now {
		return ""
	}
	return fmt.Sprintf("checkpoint %d was computed with %s, and the devices now compute with %s: the weights would differ in their last bits from those of a run that one of the two computes as a whole", m.ID, then, now)
}

// withoutPath leaves out changes of the paths of data and tokenizer.
func withoutPath(list []configs.Change) (left []configs.Change) {
	for _, c := range list {
		if c.Key != "data.path" && c.Key != "data.tokenizer" {
			left = append(left, c)
		}
	}
	return left
}

// changesSince compares a checkpoint's config with the one now.
func changesSince(c *configs.Config, m *checkpoint.Manifest) ([]configs.Change, error) {
	now, err := rootedText(c)
	if err != nil {
		return nil, err
	}
	list, err := configs.Changes(m.Config, now)
	if err != nil {
		return nil, fmt.Errorf("the config of checkpoint %d cannot be read: %w", m.ID, err)
	}
	return list, nil
}
