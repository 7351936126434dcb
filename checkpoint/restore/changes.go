package restore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/columns"
)

// changed says how the run's config, data or kernels differ from a checkpoint's; ""
// where they do not. Moving the data is no change.
func (r *Run) changed(m *checkpoint.Manifest) (string, error) {
	prints, err := r.Fingerprints()
	if err != nil {
		return "", err
	}
	if Untrained(m) {
		return r.otherModel(m)
	}
	sameData := m.Fingerprints[dataPrint] == prints[dataPrint]
	var said []string
	if m.Fingerprints[configPrint] != prints[configPrint] {
		list, err := changesSince(r.Config, m)
		if sameData {
			list = withoutPath(list)
		}
		if r.Longer > 0 && r.Longer == m.Step {
			list = withoutLength(list)
		}
		if err != nil {
			said = append(said, err.Error())
		} else if len(list) > 0 {
			said = append(said, configs.SummaryOfChanges(list))
		}
	}
	if !sameData {
		if list := columnChanges(r.Config, m); len(list) > 0 {
			said = append(said, configs.SummaryOfChanges(list))
		}
		said = append(said, otherData(m, prints[dataPrint]))
	}
	for _, text := range []string{otherPositive(r.Config, m), r.otherOwn(m), otherOps(m), otherMetrics(m)} {
		if text != "" {
			said = append(said, text)
		}
	}
	if kernels := r.otherKernels(m); kernels != "" && !r.LostDevices {
		said = append(said, kernels)
	}
	return strings.Join(said, "; "), nil
}

// columnChanges compares how the columns of a table are used: keys that no config's identity has, since
// the fingerprint of the data depends on them.
func columnChanges(c *configs.Config, m *checkpoint.Manifest) (list []configs.Change) {
	old, err := configs.Parse("config", m.Config, configs.Overlay{})
	if err != nil || old.Data.Source != "csv" || c.Data.Source != "csv" {
		return nil
	}
	was, is := byName(old.Data.Columns), byName(c.Data.Columns)
	for _, x := range slices.Concat(c.Data.Columns, old.Data.Columns) {
		then, now := columnText(was, x.Name), columnText(is, x.Name)
		change := configs.Change{Key: "data.columns." + x.Name, Then: then, Now: now}
		if then != now && x.Name != columns.All && !slices.Contains(list, change) { // that of all others follows from theirs
			list = append(list, change)
		}
	}
	then, now := columnText(was, columns.All), columnText(is, columns.All)
	if then != now && len(list) == 0 { // those that neither config names
		list = append(list, configs.Change{Key: "data.columns." + columns.All, Then: then, Now: now})
	}
	if then, now := missingText(old.Data.Missing), missingText(c.Data.Missing); then != now {
		list = append(list, configs.Change{Key: "data.missing", Then: then, Now: now})
	}
	return list
}

// otherFeatures reports whether the columns of a table become other features than a checkpoint's.
func (r *Run) otherFeatures(m *checkpoint.Manifest) bool {
	if Untrained(m) || m.Fingerprints[dataPrint] == r.Data {
		return false
	}
	return slices.ContainsFunc(columnChanges(r.Config, m), func(c configs.Change) bool { return !leftOut(c.Then) || !leftOut(c.Now) })
}

// leftOut reports whether a column that is used so, as columnText says it, is no feature. "" is one
// that the table lacks.
func leftOut(used string) bool {
	return slices.Contains([]columns.Kind{"", columns.Text, columns.Identifier, columns.Ignore}, columns.Kind(used))
}

// missingText is data.missing as a config has it; "" where it is not set.
func missingText(words []string) string {
	if words == nil {
		return ""
	}
	shown := slices.Clone(words)
	for i, word := range words {
		if quoted := strconv.Quote(word); quoted != `"`+word+`"` { // such as a carriage return
			shown[i] = quoted
		}
	}
	return "[" + strings.Join(shown, ", ") + "]"
}

// positiveChange is that of the positive class since a checkpoint; nil if there is none.
func positiveChange(c *configs.Config, m *checkpoint.Manifest) *configs.Change {
	old, err := configs.Parse("config", m.Config, configs.Overlay{})
	if err != nil || old.Data.Positive == c.Data.Positive {
		return nil
	}
	return &configs.Change{Key: "data.positive", Then: old.Data.Positive, Now: c.Data.Positive}
}

// otherPositive says that the class differs that checkpoint.best or early_stopping.metric is about;
// "" where it does not. The key is free otherwise. But values about one class must not be compared with
// those about the other, which would choose a wrong best checkpoint.
func otherPositive(c *configs.Config, m *checkpoint.Manifest) string {
	change := positiveChange(c, m)
	if change == nil {
		return ""
	}
	by := []configs.Change{{Key: "checkpoint.best", Now: c.Checkpoint.Best}}
	if c.EarlyStopping.Patience > 0 {
		by = append(by, configs.Change{Key: "early_stopping.metric", Now: c.EarlyStopping.Metric})
	}
	for _, x := range by {
		if runstate.AboutPositive(x.Now) {
			return fmt.Sprintf("%s, and %s is %s: its values so far are about the other class", change, x.Key, x.Now)
		}
	}
	return ""
}

// columnText says how a column is used, as a config does; without an option of its own, as all others.
func columnText(list map[string]configs.Column, name string) string {
	x, own := list[name]
	if !own {
		x = list[columns.All]
	}
	text := x.Kind
	for _, option := range [][2]string{{"missing", x.Missing}, {"order", x.Order}} {
		if option[1] != "" {
			text += fmt.Sprintf(", %s: %s", option[0], option[1])
		}
	}
	if x.Top > 0 {
		text += fmt.Sprintf(", top: %d", x.Top)
	}
	if text != x.Kind {
		text = "{kind: " + text + "}"
	}
	return text
}

// otherModel says how the model differs from an imported one; "" where it does not. The
// rest of the config is about training, which begins now.
func (r *Run) otherModel(m *checkpoint.Manifest) (string, error) {
	list, err := changesSince(r.Config, m)
	if err != nil {
		return "", err
	}
	return configs.SummaryOfChanges(OfModel(list)), nil
}

// OfModel leaves changes of the model and its tokens.
func OfModel(list []configs.Change) (left []configs.Change) {
	for _, c := range list {
		section, _, _ := strings.Cut(c.Key, ".")
		if section == "model" && c.Key != "model.dropout" || section == "adapt" && c.Key != "adapt.lora.dropout" || c.Key == "data.source" || c.Key == "data.tokenizer" {
			left = append(left, c)
		}
	}
	return left
}

// otherData says that the data with a fingerprint is not a checkpoint's.
func otherData(m *checkpoint.Manifest, now string) string {
	then := m.Fingerprints[dataPrint]
	if IsOneBatch(then) {
		return fmt.Sprintf("checkpoint %d was trained on one batch alone, to check the model, and the data is more than that", m.ID)
	}
	return fmt.Sprintf("the data is not what checkpoint %d was trained on (fingerprint %s then, %s now)", m.ID, short(then), short(now))
}

// otherKernels says that the devices compute with other kernels than a checkpoint's
// did; "" where they do not, or where it does not record them.
func (r *Run) otherKernels(m *checkpoint.Manifest) string {
	then, now := m.Fingerprints[numericsPrint], r.Numerics
	if then == "" || then == now {
		return ""
	}
	how := " in their last bits"
	if strings.Contains(then+now, "rounding") { // of what is multiplied
		how = ""
	}
	return fmt.Sprintf("checkpoint %d was computed with %s, and the devices now compute with %s: the weights would differ%s from those of a run that one of the two computes as a whole", m.ID, then, now, how)
}

// withoutPath leaves out changes of the paths of data and tokenizer.
func withoutPath(list []configs.Change) (left []configs.Change) {
	for _, c := range list {
		if c.Key != "data.path" && c.Key != "data.tokenizer" && !movedPart(c) {
			left = append(left, c)
		}
	}
	return left
}

// withoutLength leaves out changes of the length and of the schedule.
func withoutLength(list []configs.Change) []configs.Change {
	return slices.DeleteFunc(slices.Clone(list), func(c configs.Change) bool {
		return c.Key == "train.epochs" || c.Key == "train.steps" || strings.HasPrefix(c.Key, "schedule.")
	})
}

// movedPart reports whether a change is of the path of a part of the data.
func movedPart(c configs.Change) bool {
	isPath := func(value string) bool {
		_, err := strconv.ParseFloat(value, 64)
		return value != "" && err != nil
	}
	return (c.Key == "data.split.val" || c.Key == "data.split.test") && isPath(c.Then) && isPath(c.Now)
}

// changesSince compares a checkpoint's config with the one now.
func changesSince(c *configs.Config, m *checkpoint.Manifest) ([]configs.Change, error) {
	now, err := c.Kept()
	if err != nil {
		return nil, err
	}
	list, err := configs.Changes(m.Config, now)
	if err != nil {
		return nil, fmt.Errorf("the config of checkpoint %d cannot be read: %w", m.ID, err)
	}
	return list, nil
}

// otherOwn says that the program gives another model than a checkpoint's; "" where it does not.
func (x *Model) otherOwn(m *checkpoint.Manifest) string {
	then := m.Fingerprints[modelPrint]
	if x.Own == "" || then == x.Own {
		return ""
	}
	return fmt.Sprintf("the model that the program gives is not the one of checkpoint %d (fingerprint %s then, %s now)", m.ID, short(then), short(x.Own))
}
