package costs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

// The causes of errors about files of times.
var (
	ErrOther   = errors.New("not a file of measured times; name another file")
	ErrDamaged = errors.New("a damaged file of measured times")
	ErrForeign = errors.New("measured on another machine, or by another build of the program")
)

// Variable is the environment variable that names the file of times, where no
// caller does.
const Variable = "BERTH_COSTS"

// format is the version of the file's format.
const format = 1

// mostWait is how long a process waits for others that write to the file. One that is stopped has the lock for good.
const mostWait = time.Second

// mostTimes is how many times a file keeps, the newest ones, and mostBytes bounds a file: some hundred bytes for each.
const (
	mostTimes = 8000
	mostBytes = 64 << 20
)

// The most that times and ratios can be: more is an error of a clock, or damage.
const (
	mostSeconds = 1e6
	mostRatio   = 1e3
)

// DefaultPath is the file that [Variable] names, or else one for this machine in
// the folder berth/costs of the user's cache.
func DefaultPath() (string, error) {
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no folder for measured times: set %s to a file: %w", Variable, err)
	}
	return filepath.Join(dir, "berth", "costs", ThisMachine().name()), nil
}

// File is a file of times, and a copy of them in memory. Its methods are safe for
// concurrent use.
type File struct {
	path    string // "": the times are in memory alone
	machine Machine
	mu      sync.Mutex
	kept
}

// kept is what a file has.
type kept struct {
	seconds map[Key]float64
	order   []Key                // of seconds, the oldest first
	runs    map[string][]float64 // see [File.Runs]
}

// contents is a file as JSON.
type contents struct {
	Format   int                  `json:"berth_costs"`
	Machine  Machine              `json:"machine"`
	Segments []entry              `json:"segments"`
	Runs     map[string][]float64 `json:"runs,omitempty"`
}

// entry is a time as the file has it, with what it is the time of.
type entry struct {
	Key
	Seconds float64 `json:"seconds"`
}

// Open reads the times of a machine from a file. A file that is not there is
// empty. So is one that is of no use (ErrDamaged, ErrForeign, ErrOther) or cannot be
// read: the File is valid then too, and the error is for a warning.
func Open(path string, m Machine) (*File, error) {
	f := &File{path: path, machine: m}
	var err error
	f.kept, err = f.read()
	return f, err
}

// Unread is a file of times to add to, which is read once that is done. It tells no time before.
func Unread(path string, m Machine) *File {
	return &File{path: path, machine: m, kept: nothing()}
}

// Unkept has times in memory alone, which end with the process.
func Unkept(m Machine) *File {
	return &File{machine: m, kept: nothing()}
}

// nothing is what an empty file has.
func nothing() kept { return kept{seconds: map[Key]float64{}, runs: map[string][]float64{}} }

// add adds times, as the newest.
func (k *kept) add(times map[Key]float64) {
	k.order = slices.DeleteFunc(k.order, func(x Key) bool { _, again := times[x]; return again })
	k.order = append(k.order, slices.SortedFunc(maps.Keys(times), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.On, b.On), cmp.Compare(a.Work, b.Work))
	})...)
	maps.Copy(k.seconds, times)
}

// newest lists the newest times, the oldest of them first.
func (k *kept) newest() []entry {
	list := []entry{}
	for _, x := range k.order[max(0, len(k.order)-mostTimes):] {
		list = append(list, entry{x, k.seconds[x]})
	}
	return list
}

// read reads the file.
func (f *File) read() (kept, error) {
	k := nothing()
	text, err := osfile.Read(f.path, mostBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k, nil
	case err != nil:
		return k, fmt.Errorf("measured times: %w", err)
	case len(text) == 0:
		return k, nil
	case !bytes.HasPrefix(bytes.TrimLeft(text, "{ \t\r\n"), []byte(`"berth_costs"`)):
		return k, fmt.Errorf("%s: %w", f.path, ErrOther)
	}
	var c contents
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil || c.Format != format {
		return k, fmt.Errorf("%s: %w", f.path, ErrDamaged)
	}
	if c.Machine != f.machine {
		return k, fmt.Errorf("%s: %w", f.path, ErrForeign)
	}
	for _, e := range c.Segments {
		if !isTime(e.Seconds) || e.Work == "" || e.On == "" {
			return nothing(), fmt.Errorf("%s: %w", f.path, ErrDamaged)
		}
		if _, twice := k.seconds[e.Key]; !twice {
			k.order = append(k.order, e.Key)
		}
		k.seconds[e.Key] = e.Seconds
	}
	for kind, list := range c.Runs {
		if !isRatio(list...) {
			return nothing(), fmt.Errorf("%s: %w", f.path, ErrDamaged)
		}
		k.runs[kind] = list
	}
	return k, nil
}

// isTime reports whether work can take so long.
func isTime(seconds float64) bool { return seconds >= 0 && seconds <= mostSeconds }

// isRatio reports whether a step can take so many times as long as predicted.
func isRatio(list ...float64) bool {
	return !slices.ContainsFunc(list, func(x float64) bool { return !(x > 0 && x <= mostRatio) })
}

// Len counts the times.
func (f *File) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seconds)
}

// Seconds is the time of some work; ok is false if it was not measured.
func (f *File) Seconds(k Key) (seconds float64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seconds, ok = f.seconds[k]
	return seconds, ok
}

// Add adds times to the file, and takes over what other processes have added
// meanwhile. It waits for their writing for a second, or until ctx ends before. A file of times that is of no
// use is replaced; any other file stays. Of many times, the file keeps the newest.
func (f *File) Add(ctx context.Context, times map[Key]float64) error {
	for k, s := range times {
		if !isTime(s) {
			return fmt.Errorf("%s on %s takes %v s: give a number from 0 to %g", k.Work, k.On, s, float64(mostSeconds))
		}
	}
	return f.update(ctx, func(k *kept) { k.add(times) })
}

// Use adds times for this process alone.
func (f *File) Use(times map[Key]float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(f.seconds, times)
}

// update changes what the file has, and takes over what other processes have added. See [File.Add].
func (f *File) update(ctx context.Context, change func(*kept)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.kept) // this process has all of it, even where the file does not
	if f.path == "" {
		return nil
	}
	now, err := f.replace(ctx, change)
	if err != nil {
		return err
	}
	maps.Copy(f.seconds, now.seconds)
	f.runs = now.runs
	return nil
}

// replace writes the file anew, with a change, and gives what it then has.
func (f *File) replace(ctx context.Context, change func(*kept)) (kept, error) {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o777); err != nil {
		return kept{}, fmt.Errorf("measured times: %w", err)
	}
	unlock, err := lock(ctx, osfile.Beside(f.path, ".lock"))
	if err != nil {
		return kept{}, fmt.Errorf("measured times: %w", err)
	}
	defer unlock()
	now, err := f.read()
	if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
		return kept{}, err
	}
	change(&now)
	return now, osfile.Replace(f.path, func(w *os.File) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "\t")
		return e.Encode(contents{Format: format, Machine: f.machine, Segments: now.newest(), Runs: now.runs})
	})
}

// lock waits for the lock of a file, which it makes, until ctx ends or mostWait has passed; unlock removes the file. It tries
// at least once. On a file system without locks there is none to wait for.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, mostWait, fmt.Errorf("%s: another process has the lock", path))
	defer cancel()
	for {
		f, err := osfile.Open(path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		got, err := osfile.Lock(f, true)
		if err != nil || got && isAt(f, path) {
			return func() {
				_ = os.Remove(path) // before another process can have the lock
				_ = f.Close()       // which unlocks it
			}, nil
		}
		_ = f.Close()
		if got {
			continue // its holder has removed it meanwhile
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// isAt reports whether a path still leads to an open file.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(open, there)
}
