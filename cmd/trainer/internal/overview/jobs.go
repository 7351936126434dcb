package overview

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-ml/berth/checkpoint/rundir"
)

// The conditions that runs of queued jobs have beside those of rundir.
const (
	waits  rundir.Condition = "waiting" // it has begun, and goes on once its job has devices again
	queued rundir.Condition = "queued"  // it has not begun
)

// markWaiting gives runs the condition waiting whose folders are those of jobs that wait. It returns
// the other folders.
func markWaiting(list []summarized, dirs []string) (others []string) {
	left := map[string]string{}
	for _, d := range dirs {
		left[realPath(d)] = d
	}
	for _, s := range list {
		if dir := realPath(s.dir); left[dir] != "" {
			s.Condition = waits
			delete(left, dir)
		}
	}
	return slices.Sorted(maps.Values(left))
}

// queuedIn are the runs of those folders that are in the folder dir, and in which nothing has begun.
func queuedIn(dir string, dirs []string) (list []summarized) {
	for _, d := range dirs {
		st, err := os.Stat(d)
		if err == nil && realPath(filepath.Dir(d)) == realPath(dir) {
			list = append(list, summarized{filepath.Join(dir, filepath.Base(d)), &rundir.Summary{Condition: queued, Changed: st.ModTime()}})
		}
	}
	return list
}

// realPath is a path without links, from the root.
func realPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}
