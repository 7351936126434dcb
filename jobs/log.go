package jobs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/jobs/queue"
)

// LogName is the file in the run folder that has what a job printed, and OlderLogName the one
// before it. Together they have at most MostLog bytes.
const (
	LogName      = rundir.LogName
	OlderLogName = rundir.OlderLogName
	MostLog      = 16 << 20
)

// logFile is the open log of a job. What the disk does not take is lost, and the training goes on.
type logFile struct {
	mu   sync.Mutex
	dir  string
	head string // the first line of each file
	file *os.File
	size int64
}

func openLog(j *queue.Job) (*logFile, error) {
	if err := os.MkdirAll(j.Dir, 0o777); err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	l := &logFile{dir: j.Dir, head: fmt.Sprintf("%s%d (%s)\n", rundir.LogHead, j.ID, j.Name)}
	return l, l.open()
}

func (l *logFile) open() error {
	file, err := osfile.OpenMode(filepath.Join(l.dir, LogName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return fmt.Errorf("log of the job: %w", err)
	}
	st, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("log of the job: %w", err), file.Close())
	}
	l.file, l.size = file, st.Size()
	if l.size == 0 {
		n, _ := file.WriteString(l.head)
		l.size = int64(n)
	}
	return nil
}

// Write adds to the log, and lets the older half of it go where it grows too long.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > MostLog/2 && l.size > 0 {
		l.turn()
	}
	if l.file != nil {
		n, _ := l.file.Write(p)
		l.size += int64(n)
	}
	return len(p), nil
}

// turn begins a new file. Where that fails, the job goes on without a log.
func (l *logFile) turn() {
	_ = l.file.Close()
	l.file = nil
	if err := osfile.Rename(filepath.Join(l.dir, LogName), filepath.Join(l.dir, OlderLogName)); err == nil {
		_ = l.open()
	}
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// LogReader reads the log in a run folder from its beginning, also while a job writes to it.
type LogReader struct {
	dir  string
	file *os.File // the part that is read now
}

// NewLogReader reads the log in a run folder.
func NewLogReader(dir string) *LogReader { return &LogReader{dir: dir} }

// Copy copies what has come since the last call. A part that was let go meanwhile is left out. The
// reader holds a file open until the process ends, or until Close.
func (r *LogReader) Copy(to io.Writer) error {
	if r.file == nil {
		if err := r.from(OlderLogName, to); err != nil {
			return err
		}
		return r.from(LogName, to)
	}
	now, err := os.Stat(filepath.Join(r.dir, LogName)) // before the rest is read: nothing more comes to a file that is let go
	if _, err := io.Copy(to, r.file); err != nil {
		return err
	}
	if err != nil {
		return nil
	}
	if was, err := r.file.Stat(); err == nil && !os.SameFile(now, was) {
		return r.from(LogName, to)
	}
	return nil
}

// from goes on with another file, from its beginning.
func (r *LogReader) from(name string, to io.Writer) error {
	file, err := osfile.Open(filepath.Join(r.dir, name), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_ = r.Close()
	r.file = file
	_, err = io.Copy(to, file)
	return err
}

// Close gives the file free.
func (r *LogReader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
