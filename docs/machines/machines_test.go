package machines

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-ml/berth/cmd/trainer/command"
	"github.com/berth-ml/berth/internal/memdir"
)

// TestMain makes this binary the trainer that the scripts of this folder run.
func TestMain(m *testing.M) {
	testscript.Main(memdir.Main(m), map[string]func(){"trainer": command.Main})
}
