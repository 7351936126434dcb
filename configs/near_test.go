package configs

import (
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"batch", "epochs", "microbatches", "lr"}
	for word, want := range map[string]string{
		"bacth": "batch", "Batch": "batch", "epoch": "epochs", "micro_batches": "microbatches", "zzzz": "", "": "",
		strings.Repeat("x", 100): "",
	} {
		if got := nearest(word, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

// TestNearestOfShortWords: two edits turn a short word into another word.
func TestNearestOfShortWords(t *testing.T) {
	types := layerSection.choices()
	for word, want := range map[string]string{
		"gnn": "", "rnn": "", "vae": "", "conv": "conv2d", "drop": "dropout", "layer_norm": "layernorm", "reul": "relu", "ma": "max",
	} {
		if got := nearest(word, types); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestKeysNear(t *testing.T) {
	for name, want := range map[string][]string{
		"lr": {"optimizer.lr"}, "LR": {"optimizer.lr"}, "epoch": {"train.epochs"}, "train.bacth": {"train.batch"},
		"train.seed": {"seed"}, "train.lr": {"optimizer.lr"}, "data.batch": {"train.batch"}, "train.batch": {"train.batch"}, "Train.LR": {"optimizer.lr"},
		"every": {"checkpoint.every", "checkpoint.keep.every", "schedule.every"}, "zebra": nil, "": nil,
	} {
		if got := KeysNear(name); !slices.Equal(got, want) {
			t.Errorf("KeysNear(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestListNear(t *testing.T) {
	var many []string
	for c := 'a'; c < 'a'+most; c++ {
		many = append(many, strings.Repeat(string(c), 4))
	}
	few := strings.Join(many, ", ")
	if got := listNear("batch", many); got != few {
		t.Errorf("%s: few words keep their order", got)
	}
	many = append(many, "rescale")
	if got := listNear("17", many); got != few+", …" {
		t.Errorf("%s: words that are all as far keep their order", got)
	}
	if got := listNear("autoscaling", many); !strings.HasPrefix(got, "rescale, ") || !strings.HasSuffix(got, ", …") {
		t.Errorf("%s does not begin with the nearest of many", got)
	}
}
