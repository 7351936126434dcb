package osfile

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// The longest names of files, in bytes: what all file systems in use take
// (encrypted ones take the least), and of that for a suffix.
const (
	longestName   = 143
	longestSuffix = 40
)

// Beside is the path of a file beside another that is named for it: the other's,
// and a suffix. A long name is cut, and a hash keeps it apart from others.
func Beside(path, suffix string) string {
	dir, name := filepath.Split(path)
	if len(name) <= longestName-longestSuffix {
		return path + suffix
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	mark := fmt.Sprintf("-%016x", h.Sum64())
	cut := longestName - longestSuffix - len(mark)
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return dir + name[:cut] + mark + suffix
}

// besideSuffix comes after the name of the file whose place is to be taken.
const besideSuffix = ".berth-"

var besideCount atomic.Int64

// CreateBeside makes a file of a name of its own beside path, which is to take
// the place of the file there, and locks it. Files that killed processes left
// in the same attempt are removed. The mode is as CreateFor has it; errors name
// path.
func CreateBeside(path string) (*os.File, error) {
	removeAll(LeftBeside(path, besideSuffix))
	name := Beside(path, fmt.Sprintf("%s%d-%d", besideSuffix, os.Getpid(), besideCount.Add(1)))
	f, err := CreateFor(path, name)
	var p *fs.PathError
	if errors.As(err, &p) {
		p.Path = path
	}
	if err != nil {
		return nil, err
	}
	_, _ = Lock(f, true) // without locks on the file system, the process id alone tells that it is in use
	return f, nil
}

// TidyBeside removes the files in a folder that killed processes left when they were to
// take the place of files whose names end in suffix.
func TidyBeside(dir, suffix string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if name, _, ok := strings.Cut(e.Name(), suffix+besideSuffix); ok {
			removeAll(LeftBeside(filepath.Join(dir, name+suffix), besideSuffix))
		}
	}
}

// removeAll removes files that are in nobody's way: one that cannot be removed stays.
func removeAll(paths []string) {
	for _, p := range paths {
		_ = os.Remove(p)
	}
}

// LeftBeside lists the files beside path that killed processes left: those named
// for it, with suffix and the id of a process that there is not, with anything
// after a '-', which no process has locked.
func LeftBeside(path, suffix string) (left []string) {
	dir, base := filepath.Split(Beside(path, suffix))
	entries, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), base)
		id, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(id)
		if !ok || err != nil || pid <= 0 || !e.Type().IsRegular() || ProcessExists(pid) {
			continue
		}
		if name := dir + e.Name(); unlocked(name) {
			left = append(left, name)
		}
	}
	return left
}

// unlocked reports whether no process has a file locked, also none of another
// machine or container, whose id would mean nothing here.
func unlocked(name string) bool {
	f, err := Open(name, os.O_RDWR)
	if err != nil {
		return errors.Is(err, fs.ErrPermission) // the system decides
	}
	defer f.Close()
	got, err := Lock(f, true)
	return got || err != nil
}
