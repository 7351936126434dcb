package command

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/configs"
	shown "github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// text asks about a text, and writes its config.
func (n *starter) text(ctx context.Context, cfg *configs.Config) ([]byte, error) {
	size := sizeOf(n.path)
	given, err := n.given("field", "tokenizer", "context")
	if err != nil {
		return nil, err
	}
	t := textDraft{name: nameOfData(n.out), path: n.pathThere(), field: cfg.Data.Field, bytes: size, given: given, context: n.window(cfg)}
	window, _ := strconv.Atoi(t.context) // 0: as usual
	fmt.Fprintf(console.NewProse(n.command.OutOrStdout()), "text %s: %s\n", shown.Printed(n.path), units.Bytes(size))
	st, err := os.Stat(n.path)
	plain := err == nil && st.Mode().IsRegular() && !isPacked(n.path) // else its text may be longer
	if least := leastText(cmp.Or(window, smallContext)); plain && size < least {
		return nil, cli.Usagef("%s is too short to train on: a tenth of it validates, and the model sees %d characters at once: give a text of at least %s", shown.Printed(n.path), cmp.Or(window, smallContext), units.Count(int(least), "character"))
	}
	if size == 0 {
		return nil, cli.Usagef("%s has no text to train on: put text files in it", shown.Printed(n.path))
	}
	usual := "char"
	if size > 4<<20 {
		usual = "bpe"
	}
	if n.gives("data.tokenizer") {
		t.tokenizer, err = n.nameOrPath("tokenizer", cfg.Data.Tokenizer)
	} else {
		t.tokens, err = n.ask(ctx, "Read single characters, or pieces of words (char, bpe)?", usual, oneOf("char", "bpe"))
	}
	if err != nil {
		return nil, err
	}
	if t.size = "small"; plain && size < leastText(cmp.Or(window, mediumContext)) { // a larger model reads longer pieces
		return t.yaml(), nil
	}
	t.size, err = n.ask(ctx, "A model that learns in minutes, or in an hour (small, medium)?", "small", oneOf("small", "medium"))
	return t.yaml(), err
}

// isPacked reports whether a file's name says that it is packed.
func isPacked(path string) bool { return slices.Contains([]string{".gz", ".zst"}, filepath.Ext(path)) }

// sizeOf is the bytes of a file, of the files in a folder, or of those that match a pattern. Of a packed
// file it is about what it unpacks to.
func sizeOf(path string) (n int64) {
	if found, err := filepath.Glob(path); err == nil && !slices.Equal(found, []string{path}) {
		for _, f := range found {
			n += sizeOf(f)
		}
		return n
	}
	if isPacked(path) {
		defer func() { n *= 3 }()
	}
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if st, err := d.Info(); err == nil {
				n += st.Size()
			}
		}
		return nil // reading says what is wrong
	})
	return n
}
