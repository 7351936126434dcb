package command

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-ml/berth/internal/busy"
	"github.com/berth-ml/berth/internal/memdir"
	"github.com/berth-ml/berth/internal/testall"
)

// TestMain makes this binary the programs that scripts and tests run: trainer,
// and unprivileged, which is trainer run by a user without root's rights. More
// scripts run at once than there may be processors, since some wait for seconds.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "3"); err != nil {
		panic(err)
	}
	busy.Assume = func() bool { return false } // times are kept on a busy machine, too
	testscript.Main(memdir.Main(ownTimes{m}), map[string]func(){"trainer": misbehaved, "unprivileged": unprivileged})
}

// ownTimes are tests that share a file of measured times of their own.
type ownTimes struct{ memdir.Tests }

func (t ownTimes) Run() int {
	dir, err := os.MkdirTemp("", "times-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("BERTH_COSTS", filepath.Join(dir, "times.json"))
	return t.Tests.Run()
}

// misbehaved is Main of a process that may fail as a test asks.
func misbehaved() {
	misbehave()
	Main()
}

// misbehave has this process fail later, if a test asks for that.
var misbehave = func() {}

func unprivileged() {
	os.Args[0] = "trainer"
	if err := dropPrivileges(); err != nil {
		panic(err)
	}
	Main()
}

// TestScripts runs what users type. See the commands in script_test.go. Lines that
// begin with [all] run with TEST_ALL alone, and [opencl] tells whether there is a device.
func TestScripts(t *testing.T) {
	openFiles()
	reference, err := filepath.Abs("../../../engine/ops/ref/testdata")
	if err != nil {
		t.Fatal(err)
	}
	gpt2, err := filepath.Abs("../../../checkpoint/pretrained/testdata/gpt2")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	compiled := t.TempDir() // an OpenCL driver's kernels
	if cache, err := os.UserCacheDir(); err == nil {
		compiled = filepath.Join(cache, "pocl", "kcache")
	}
	files, dir := []string(nil), "testdata/script"
	if testing.Short() {
		for _, name := range []string{"usage", "resume", "predict"} {
			files = append(files, filepath.Join(dir, name+".txtar"))
		}
		dir = ""
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOGC", "400") // a thousand short commands: less time for garbage
			e.Setenv("REFERENCE", reference)
			e.Setenv("GPT2", gpt2)
			e.Setenv("EXAMPLES", examples)
			e.Setenv("BERTH_COSTS", os.Getenv("BERTH_COSTS"))
			e.Setenv("POCL_CACHE_DIR", compiled)
			for _, name := range []string{"OCL_ICD_VENDORS", "LD_LIBRARY_PATH"} { // where the driver is
				if value, set := os.LookupEnv(name); set {
					e.Setenv(name, value)
				}
			}
			return nil
		},
		Cmds: scriptCommands,
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "all":
				return testall.Wanted(), nil
			case "opencl":
				return openCL()
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}
