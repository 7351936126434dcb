package specs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/internal/errs"
)

// checkOwnModel refuses a model that the config does not ask for, and a config whose model
// the program does not give.
func checkOwnModel(c *configs.Config, given models.Layer) error {
	where := c.Where("model.preset")
	switch asked := c.Model.Preset == configs.ModelGiven; {
	case given != nil && !asked:
		return configs.At(where, fmt.Errorf("%w: the program gives a model, but model.preset is %q: write `model: {preset: given}`", errs.ErrOptions, c.Model.Preset))
	case given == nil && asked && c.Model.Program != "":
		return configs.At(where, fmt.Errorf("%w: the model was built by the program %s, and this program passes no model: run it with %s", errs.ErrOptions, c.Model.Program, c.Model.Program))
	case given == nil && asked:
		return configs.At(where, fmt.Errorf("%w: model.preset is `given`, but the program passed no model: set OpenOptions.Model, or TrainedOptions.Model", errs.ErrOptions))
	}
	return nil
}

// ProgramName is the path of the program's main package or, where go run was given files,
// the name of what runs.
func ProgramName() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Path != "" && info.Path != "command-line-arguments" {
		return info.Path
	}
	return filepath.Base(os.Args[0])
}

// ownLayers are the layers of a model that a program gives.
func ownLayers(given models.Layer) models.Stack {
	switch l := given.(type) {
	case models.Stack:
		return l
	case models.Named:
		return models.Stack{l}
	}
	return models.Stack{models.Named{Name: "model", Layer: given}}
}
