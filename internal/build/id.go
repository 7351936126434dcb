package build

import (
	"debug/elf"
	"os"
	"strings"
)

// ID is what the Go linker calls the contents of this program's file; "" where the file does not say. Two files with
// one ID are the same program.
func ID() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return idOf(f)
}

// idOf reads the note: the lengths of a name and of the ID, a type, the name "Go", and the ID.
func idOf(f *elf.File) string {
	const name = "Go\x00\x00"
	s := f.Section(".note.go.buildid")
	if s == nil {
		return ""
	}
	b, err := s.Data()
	head := 12 + len(name)
	if err != nil || len(b) < head {
		return ""
	}
	n := int(f.ByteOrder.Uint32(b[4:]))
	if n < 0 || n > len(b)-head || string(b[12:head]) != name {
		return ""
	}
	id := string(b[head : head+n])
	return id[strings.LastIndexByte(id, '/')+1:]
}
