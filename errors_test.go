package berth_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
)

func TestConfigsChangedInCodeAreChecked(t *testing.T) {
	c, err := configs.Load("digits", configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	c.Train.Batch = -4
	for _, x := range []struct {
		c    *configs.Config
		want string
	}{
		{c, "train.batch: got -4, expected a whole number of at least 1"},
		{&configs.Config{}, "data.source: has no value, expected one of digits"},
	} {
		_, err := berth.Open(t.Context(), x.c, berth.OpenOptions{})
		if !errors.Is(err, configs.ErrInvalid) || !berth.IsUsage(err) || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("got %v, want %q", err, x.want)
		}
	}
}

// What is not there is a mistake of the call, as the command has it.
func TestMissingThingsAreUsage(t *testing.T) {
	_, err := configs.Load("nofile.yaml", configs.Overlay{})
	_, missing := runtest.Open(t, runtest.Everything).Eval(t.Context(), berth.Weights{Dir: filepath.Join(t.TempDir(), "zzz")})
	for _, err := range []error{err, missing} {
		if err == nil || !berth.IsUsage(err) {
			t.Errorf("%v is not told from a failure", err)
		}
	}
	if damaged := fmt.Errorf("%w: %w", checkpoint.ErrDamaged, checkpoint.ErrNotFound); berth.IsUsage(damaged) {
		t.Errorf("%v is told to be a mistake", damaged)
	}
}

// A path that must not be written to is named by its option, and a folder for spills
// by its key.
func TestErrorsInWordsOfGo(t *testing.T) {
	dir := t.TempDir()
	r := runtest.Open(t, runtest.Everything)
	for option, o := range map[string]berth.TrainOptions{
		"Report": {Dir: dir, Report: dir}, "Dump": {Dir: dir, Dump: filepath.Join(dir, "file")},
	} {
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := r.Train(t.Context(), o)
		var output *berth.OutputError
		if !errors.As(err, &output) || output.Option != option || !strings.HasPrefix(err.Error(), "TrainOptions."+option+": ") || !berth.IsUsage(err) {
			t.Errorf("%s: %v", option, err)
		}
	}
	_, err := berth.OpenDevices(configs.Devices{Use: "cpu", HostMemory: 1 << 20, SpillDir: filepath.Join(dir, "none")}, berth.DevicesOptions{})
	if err == nil || !strings.HasPrefix(err.Error(), "devices.spill_dir: ") || !berth.IsUsage(err) {
		t.Errorf("no folder for spills: %v", err)
	}
}
