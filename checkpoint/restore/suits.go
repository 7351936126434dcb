package restore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/configs"
)

// Suits refuses a checkpoint of another model, or of other data.
func (x *Model) Suits(m *checkpoint.Manifest) error {
	if text := otherOps(m); text != "" {
		return fmt.Errorf("%w: %s", initial.ErrChanged, text)
	}
	list, err := changesSince(x.Config, m)
	if err != nil {
		return fmt.Errorf("%w: %w", initial.ErrChanged, err)
	}
	if text := x.otherOwn(m); text != "" {
		return fmt.Errorf("%w: %s", initial.ErrChanged, text)
	}
	if Untrained(m) {
		list = OfModel(list)
	}
	if list = slices.DeleteFunc(list, harmless); len(list) > 0 {
		return fmt.Errorf("%w: %s: that is part of what was trained; leave it as it was, or use a checkpoint that was trained so", initial.ErrChanged, configs.SummaryOfChanges(list))
	}
	if now := x.Data; !Untrained(m) && m.Fingerprints[dataPrint] != now {
		return fmt.Errorf("%w: %s: open the run with OpenTrained to use it on other data", initial.ErrChanged, otherData(m, now))
	}
	return nil
}

// trainedOtherwise reports whether a model that goes on from a checkpoint has another config than the checkpoint
// suits.
func (r *Run) trainedOtherwise(m *checkpoint.Manifest) bool {
	list, err := changesSince(r.Config, m)
	return err == nil && !Untrained(m) && slices.ContainsFunc(list, func(c configs.Change) bool { return !harmless(c) })
}

// harmless reports whether a trained model can be used in spite of a change: of
// where and how data is written, or of how the model was trained.
func harmless(c configs.Change) bool {
	section, name, _ := strings.Cut(c.Key, ".")
	switch section {
	case "precision", "optimizer", "schedule":
		return true
	case "train":
		return name != "shuffle" // which would make the data another
	case "data":
		return slices.Contains([]string{"path", "header", "delimiter", "label", "ignore", "input", "target", "prefix", "field"}, name) || movedPart(c)
	}
	return false
}
