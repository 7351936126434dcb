package osfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// besideSuffix comes after the name of the file whose place is to be taken.
const besideSuffix = ".berth-"

var besideCount atomic.Int64

// CreateBeside makes a file of a name of its own beside path, which is to take
// the place of the file there, and locks it. Files that killed processes left
// in the same attempt are removed. The mode is as CreateFor has it; errors name
// path.
func CreateBeside(path string) (*os.File, error) {
	for _, left := range LeftBeside(path, besideSuffix) {
		_ = os.Remove(left) // it is in nobody's way
	}
	name := fmt.Sprintf("%s%s%d-%d", path, besideSuffix, os.Getpid(), besideCount.Add(1))
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

// LeftBeside lists the files that killed processes left: those named path,
// suffix and the id of a process that there is not, with anything after a '-',
// which no process has locked.
func LeftBeside(path, suffix string) (left []string) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), base+suffix)
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
