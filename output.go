package berth

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CheckOutput refuses, with ErrOutput, a path that should not be written to: a
// folder, a file whose folder is not there, a file of a run folder, or one of
// those that are read meanwhile. Empty names among reads are passed over.
func CheckOutput(path string, reads ...string) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %s", path, ErrOutput, fmt.Sprintf(format, args...))
	}
	dir := filepath.Dir(path)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return refuse("%s is no folder; make it first", dir)
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return refuse("it is a folder; name a file in it")
	}
	if ofRun(followed(path)) {
		return refuse("it belongs to the run in %s; name another file", filepath.Dir(followed(path)))
	}
	for _, r := range reads {
		if r != "" && samePlace(path, r) {
			return refuse("%s is needed; name another file", r)
		}
	}
	return nil
}

// ofRun reports whether a path is of a file that a run keeps, in a folder that
// holds a run, or of one beside its checkpoints that is named for them, such as
// a copy.
func ofRun(path string) bool {
	dir, name := filepath.Split(path)
	if !there(filepath.Join(dir, checkpointName)) {
		return false
	}
	kept := name == configFile || name == metricsName || name == reportName
	return kept || strings.HasPrefix(name, checkpointName) && there(path)
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// samePlace reports whether two paths lead to one file, or would if it were
// there.
func samePlace(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil || errY == nil {
		return errX == nil && errY == nil && os.SameFile(x, y)
	}
	if filepath.Base(a) != filepath.Base(b) {
		return false
	}
	x, errX = os.Stat(filepath.Dir(a))
	y, errY = os.Stat(filepath.Dir(b))
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// followed is a path without symbolic links, as far as they lead anywhere.
func followed(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// checkOutputs refuses what the report and the dump should not be written to.
func (t *trainer) checkOutputs() error {
	reads := t.Reads(Weights{Dir: t.opt.Dir, Init: t.opt.Init})
	if to := t.opt.Report; to != "" && !samePlace(to, filepath.Join(t.opt.Dir, reportName)) {
		if err := CheckOutput(to, reads...); err != nil {
			return fmt.Errorf("report %w", err)
		}
	}
	dir := t.opt.Dump
	if st, err := os.Stat(dir); dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil // or it is made
	} else if err != nil || !st.IsDir() {
		return fmt.Errorf("dump %s: %w: a folder is needed", dir, ErrOutput)
	}
	for _, name := range dumped {
		if err := CheckOutput(filepath.Join(dir, name), reads...); err != nil {
			return fmt.Errorf("dump %w", err)
		}
	}
	return nil
}

// Reads are the files that the run and weights for it are read from, so that
// nothing is written over them.
func (r *Run) Reads(w Weights) []string {
	d := r.Config.Data
	reads := []string{r.Config.Pos.File, d.Path}
	if d.Source == "tensors" {
		reads = append(reads, filepath.Join(d.Path, d.Input), filepath.Join(d.Path, d.Target))
	}
	if w.Init != "" {
		file, _ := initFile(w.Init)
		reads = append(reads, file)
	}
	if w.Dir != "" {
		for _, name := range []string{configFile, metricsName, checkpointName} {
			reads = append(reads, filepath.Join(w.Dir, name))
		}
	}
	return reads
}

// WriteOutput gives a file what write writes. It is written beside it, and put
// in its place once it is whole: on an error the file stays as it was. What is
// no regular file, such as a pipe, is written to as it is.
func WriteOutput(path string, write func(io.Writer) error) error {
	real := followed(path)
	st, err := os.Stat(path)
	if err == nil && (!st.Mode().IsRegular() || strings.HasPrefix(path, "/dev/")) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		return errors.Join(buffered(f, write), f.Close())
	}
	return writeBeside(real, fmt.Sprintf("%s.berth-%d", real, os.Getpid()), write)
}

// writeBeside writes a file under another name first, next, which nobody else
// uses, and leaves nothing of it where that fails.
func writeBeside(path, next string, write func(io.Writer) error) error {
	err := writeSynced(next, write)
	if st, e := os.Stat(path); err == nil && e == nil {
		err = os.Chmod(next, st.Mode().Perm())
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // which a failed Create has not made
	}
	return err
}

func writeSynced(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = buffered(f, write)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// buffered has write write to w in large pieces, and hands on the first error.
func buffered(w io.Writer, write func(io.Writer) error) error {
	b := bufio.NewWriter(w)
	err := write(b)
	if e := b.Flush(); err == nil {
		err = e
	}
	return err
}
