package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "", "folder for the data (required)")
	each := flag.Int("each", 500, "shapes of each class, of which 100 are also files of their own; 40 at least")
	flag.Parse()
	if *out == "" || *each < 40 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*out, *each); err != nil {
		fmt.Fprintln(os.Stderr, "gallery:", err)
		os.Exit(1)
	}
}

// write writes all data into a folder.
func write(folder string, each int) error {
	files := map[string][]byte{"flats.csv": flats(), "chats.jsonl": chats(), "chat.jinja": []byte(template)}
	if err := addShapes(files, each); err != nil {
		return err
	}
	for name, data := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d files\n", folder, len(files))
	return nil
}

// draws is the generator of sample i of one kind of data.
func draws(kind, i int) *rand.Rand { return rand.New(rand.NewPCG(uint64(kind), uint64(i))) }
