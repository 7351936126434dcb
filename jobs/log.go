package jobs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/berth-ml/berth/engine/osfile"
)

// LogName is the file in the run folder that has what a job printed, and OlderLogName the one
// before it. Together they have at most MostLog bytes.
const (
	LogName      = "log"
	OlderLogName = "log.1"
	MostLog      = 16 << 20
)

// logFile is the open log of a job. What the disk does not take is lost, and the training goes on.
type logFile struct {
	mu   sync.Mutex
	dir  string
	file *os.File
	size int64
}

func openLog(dir string) (*logFile, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	l := &logFile{dir: dir}
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

// CopyLog copies the log in a run folder, the older part first.
func CopyLog(to io.Writer, dir string) error {
	for _, name := range []string{OlderLogName, LogName} {
		file, err := osfile.Open(filepath.Join(dir, name), os.O_RDONLY)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = io.Copy(to, io.LimitReader(file, MostLog))
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
