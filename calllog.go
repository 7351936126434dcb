package berth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/executor/trace"
)

// callLog is the log that devices.op_by_op: log asks for.
type callLog struct {
	calls *trace.Calls // nil unless the config asks for them
	file  *os.File     // nil if they go to standard error
	made  bool         // the log made the file
}

// open begins the log, if the config asks for it; reads are the files that are used.
func (l *callLog) open(c *configs.Config, reads []string) (err error) {
	if !c.Devices.Runs(configs.OpByOpLog) {
		return nil
	}
	path, out := c.Devices.OpByOpLog, os.Stderr
	if path != "" {
		if err := checkCallLog(c, reads); err != nil {
			return err
		}
		out, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if l.made = err == nil; errors.Is(err, fs.ErrExist) {
			out, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		}
		if err != nil {
			return atCallLog(c, err)
		}
		l.file = out
	}
	l.calls = trace.NewCalls(out)
	return nil
}

// checkCallLog refuses a file for the log that should not or cannot be written to; reads
// are the files that are used.
func checkCallLog(c *configs.Config, reads []string) error {
	if c.Devices.OpByOpLog == "" || !c.Devices.Runs(configs.OpByOpLog) {
		return nil
	}
	if err := rundir.CheckOutput(c.Devices.OpByOpLog, reads...); err != nil {
		return atCallLog(c, err)
	}
	return nil
}

// atCallLog adds the place in the config to an error of the log.
func atCallLog(c *configs.Config, err error) error {
	return at(c.Where("devices.op_by_op_log"), fmt.Errorf("devices.op_by_op_log: %w", err))
}

// close ends the log. It leaves no file without a line, such as that of a call that was
// refused, unless the file was there before.
func (l *callLog) close(c *configs.Config) error {
	err := l.calls.Close()
	if l.file == nil {
		return nil // nobody reads standard error any more
	}
	st, e := l.file.Stat()
	err = errors.Join(err, e, l.file.Close())
	if e == nil && l.made && st.Size() == 0 {
		err = errors.Join(err, os.Remove(l.file.Name()))
	}
	l.file = nil
	if err != nil {
		return atCallLog(c, fmt.Errorf("calls are missing in the log, and all else is done: %w", err))
	}
	return nil
}
