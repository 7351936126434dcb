package restore

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/graph"
)

// The fingerprints of a checkpoint.
const (
	configPrint   = "config"
	dataPrint     = "data"
	numericsPrint = "numerics" // older checkpoints have none
	modelPrint    = "model"    // of a model that a program gives; others have none
	// The ops and metrics that the program has added, such as "swish 1 swish_grad 1". Runs
	// without any have none. Other added names are in the config.
	opsPrint     = "ops"
	metricsPrint = "metrics"
)

// The fingerprints of data that is not a config's.
const (
	// Imported stands for the data of an imported model, which is not known.
	Imported = "imported"
	// OneBatch begins the fingerprint of one batch alone.
	OneBatch = "first-"
)

// IsOneBatch reports whether a fingerprint is of one batch alone.
func IsOneBatch(data string) bool { return strings.HasPrefix(data, OneBatch) }

// Untrained reports whether a checkpoint is of a model that was imported, and not
// trained since.
func Untrained(m *checkpoint.Manifest) bool { return m.Fingerprints[dataPrint] == Imported }

// Model is what a model is now.
type Model struct {
	Config *configs.Config
	Data   string // fingerprint of the data that it is trained on, or was
	Own    string // fingerprint of a model that the program gives; "" of others
}

// Run is what a run is now.
type Run struct {
	Model
	Numerics string       // the kernels of its devices
	Graph    *graph.Graph // of a step
	// Longer is the step at which the run was finished, where its config now goes on beyond
	// it: length and schedule may then be others. 0: it does not.
	Longer int
	// LostDevices: the run goes on with the devices that are left, whatever their kernels.
	LostDevices bool

	Samples int // in the training part
	Asked   int // train.batch
	Batch   int // samples in a full step: fewer than Asked if there are not as many
	Pace    runstate.Pace
}

// ImportedPrints are the fingerprints of an imported model.
func ImportedPrints(c *configs.Config) (map[string]string, error) {
	config, err := identity(c)
	return map[string]string{configPrint: config, dataPrint: Imported}, err
}

// Portable are a checkpoint's fingerprints but for that of its kernels: those of its weights,
// wherever they are used.
func Portable(m *checkpoint.Manifest) map[string]string {
	prints := maps.Clone(m.Fingerprints)
	delete(prints, numericsPrint)
	return prints
}

// PortableOf is Portable of a checkpoint's weights under another config.
func PortableOf(m *checkpoint.Manifest, c *configs.Config) (map[string]string, error) {
	prints := Portable(m)
	config, err := identity(c)
	prints[configPrint] = config
	return prints, err
}

// ImportedInfo describes the unknown data of an imported model. f is how it makes text of conversations; nil: nothing is known.
func ImportedInfo(t tokenizer.Tokenizer, f *chat.Format, context int) datasets.Info {
	info := datasets.TextInfo(t, context)
	info.Chat = f
	info.Fingerprint = Imported
	return info
}

// Fingerprints tell whether a resumed run is the same run.
func (r *Run) Fingerprints() (map[string]string, error) {
	config, err := identity(r.Config)
	if err != nil {
		return nil, err
	}
	prints := map[string]string{configPrint: config, dataPrint: r.Data, numericsPrint: r.Numerics}
	for print, text := range map[string]string{opsPrint: addedOps(r.Graph), metricsPrint: addedMetrics(r.Config), modelPrint: r.Own} {
		if text != "" {
			prints[print] = text
		}
	}
	return prints, nil
}

// identity is the fingerprint of a config.
func identity(c *configs.Config) (string, error) {
	text, err := c.Identity()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// short is the beginning of a fingerprint.
func short(print string) string { return print[:min(12, len(print))] }
