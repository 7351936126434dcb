package configs

import (
	"path/filepath"
	"testing"

	"github.com/berth-ml/berth/internal/golden"
)

func TestReferencePage(t *testing.T) {
	golden.Check(t, filepath.Join("..", "docs", "config.md"), Reference())
}
