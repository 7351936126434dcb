package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/engine/osfile"
)

// ErrNotPlain: a file of a run is a link, a pipe or a device. Whoever looks at runs reads only plain files of the run folder: a
// link may lead anywhere, and a pipe holds up its reader.
var ErrNotPlain = errors.New("it is a link or no plain file, which is not read")

// OpenPlain opens a file of a run folder for reading. It is ErrNotPlain for a link, and for all but a regular file.
func OpenPlain(path string) (*os.File, error) {
	f, err := osfile.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, cmp.Or(checkPlain(path), err) // a link to nothing, too
	}
	opened, err := f.Stat()
	named, unseen := os.Lstat(path)
	if err = cmp.Or(err, unseen); err == nil && !os.SameFile(opened, named) { // named is the link, if it is one
		err = notPlain(path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkPlain is ErrNotPlain where something is at a path that is no plain file.
func checkPlain(path string) error {
	if st, err := os.Lstat(path); err == nil && !st.Mode().IsRegular() {
		return notPlain(path)
	}
	return nil
}

func notPlain(path string) error { return fmt.Errorf("%s: %w", path, ErrNotPlain) }

// ReadFiles are the files of a run that its [Summary] is read from.
var ReadFiles = []string{ConfigName, MetricsName, CheckpointsName, ReportName}

// notRead is why the files of a run cannot be read; nil: they are plain files, or not there.
func notRead(dir string) error {
	for _, name := range ReadFiles {
		if err := checkPlain(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// LoggedJob is the number of the job whose log a run folder has; 0: it has none.
func LoggedJob(dir string) (job int) {
	text, err := osfile.Read(filepath.Join(dir, LogName), 64)
	if err == nil {
		_, _ = fmt.Sscanf(string(text), LogHead+"%d", &job) // it stays 0 for a log that is somebody else's
	}
	return job
}
