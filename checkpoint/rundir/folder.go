package rundir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/engine/osfile"
)

// Mode is what a run does with the contents of its folder.
type Mode uint8

// The modes.
const (
	Begin  Mode = iota // begins; refuses a folder that holds a checkpoint
	Resume             // goes on from the newest whole checkpoint
	Fresh              // begins, and deletes an earlier run once it can start
)

// OpenOptions are how a folder is opened.
type OpenOptions struct {
	Mode        Mode
	Checkpoints checkpoint.OpenOptions // for writing
	TensorBoard bool                   // the metrics also go to a file of events
	Note        func(string)           // is told what a user should know; nil for nobody
	Warn        func(string)           // is told what is lost; nil: Note is
}

// Folder is the folder of a run that trains: it holds the files open that the run writes. Its opener
// owns it, and one goroutine uses it at a time.
type Folder struct {
	// DB holds the run's checkpoints. In Fresh mode it is nil until Start.
	DB *checkpoint.DB
	// Metrics is metrics.jsonl, nil until Start.
	Metrics *Metrics

	dir   string
	opt   OpenOptions
	claim *checkpoint.Claim // in Fresh mode, until it has replaced the file
	aside string            // in Resume mode, the damaged file that was recovered, until Start
	made  []string          // folders that were not there before, until Start: the innermost first
	empty bool              // the file of checkpoints was not there before, and has none, until Start
}

// Open makes the folder and opens its checkpoints. It deletes nothing, and
// keeps a damaged file that it replaces. The caller closes the folder, which removes
// what Open has made unless Start was called.
func Open(ctx context.Context, dir string, o OpenOptions) (_ *Folder, err error) {
	f := &Folder{dir: dir, opt: o}
	f.opt.Checkpoints.Readers = checkpoint.WaitForReaders
	if o.Note == nil {
		f.opt.Note = func(string) {}
	}
	if o.Warn == nil {
		f.opt.Warn = f.opt.Note
	}
	if err := f.make(); err != nil {
		return nil, err
	}
	open := false // nor after a panic of Note
	defer func() {
		if !open {
			err = errors.Join(err, f.Close())
		}
	}()
	switch o.Mode {
	case Fresh:
		_, before := os.Lstat(f.path())
		if f.claim, err = checkpoint.ClaimFile(f.path(), f.opt.Checkpoints); err == nil && errors.Is(before, fs.ErrNotExist) {
			st, missed := os.Lstat(f.path())
			f.empty = missed == nil && st.Size() == 0
		}
		if err == nil {
			err = checkOurs(ctx, f.path())
		}
	case Resume:
		err = f.openToResume(ctx)
	default:
		err = f.openToBegin(ctx)
	}
	switch {
	case o.Mode == Resume:
	case errors.Is(err, checkpoint.ErrHeldHere):
		err = fmt.Errorf("%w, or train in another folder", err)
	case errors.Is(err, checkpoint.ErrHeld):
		err = fmt.Errorf("%w, or train in another folder (--run DIR)", err)
	}
	if err != nil {
		return nil, err
	}
	open = true
	return f, nil
}

func (f *Folder) path() string { return CheckpointPath(f.dir) }

// make makes the folder, unless it is to hold a run to resume and does not, or
// files that are not of a run, which the run's would replace.
func (f *Folder) make() error {
	if _, err := os.Lstat(f.path()); errors.Is(err, fs.ErrNotExist) && f.opt.Mode == Resume {
		return nothingToResume(f.dir)
	}
	if err := CheckFolder(f.dir, f.opt.Mode); err != nil {
		return err
	}
	f.made = missing(f.dir)
	if err := makeAll(f.dir); err != nil {
		f.unmake()
		return err
	}
	return CheckFolder(f.dir, f.opt.Mode) // a path such as new/../r leads somewhere only now
}

// makeAll makes a folder and those around it.
func makeAll(dir string) error {
	_, err := os.Lstat(filepath.Join(dir, longestName))
	if !errors.Is(err, syscall.ENAMETOOLONG) {
		err = os.MkdirAll(dir, 0o777)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%w: its path of %d bytes is too long, or a name in it: choose a shorter one", ErrFolder, len(dir))
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %s: there is a file of that name; name another folder", ErrFolder, dir)
	}
	if link, to := danglingIn(dir); link != "" {
		return fmt.Errorf("%w: %s is a link to %s, which leads nowhere: make that folder, or name another", ErrFolder, link, to)
	}
	return fmt.Errorf("run folder %s: %w", dir, err)
}

// longestName is as long as the names of a run's files get.
const longestName = "events.out.tfevents.0000000000.berth.berth-compact.pid"

// danglingIn is the first link in a path that leads nowhere, and where to; "" if there is none.
func danglingIn(path string) (link, to string) {
	if parent := filepath.Dir(path); parent != path {
		if link, to = danglingIn(parent); link != "" {
			return link, to
		}
	}
	to, err := os.Readlink(path)
	if err != nil {
		return "", ""
	}
	if _, err := os.Stat(path); err == nil {
		return "", ""
	}
	return path, to
}

// missing lists a folder and those around it that are not there.
func missing(path string) (list []string) {
	for {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) {
			return list
		}
		list = append(list, path)
		if path == filepath.Dir(path) {
			return list
		}
		path = filepath.Dir(path)
	}
}

// unmake removes the folders that Open has made. One in which others have put
// something stays.
func (f *Folder) unmake() {
	for _, path := range f.made {
		if os.Remove(path) == nil {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			return
		}
	}
	f.made = nil
}

func (f *Folder) openDB() (err error) {
	f.DB, err = checkpoint.Open(f.path(), f.opt.Checkpoints)
	return err
}

// openToBegin refuses a file that holds checkpoints, or may have held one that
// can no longer be read.
func (f *Folder) openToBegin(ctx context.Context) error {
	_, before := os.Lstat(f.path())
	err := f.openDB()
	if errors.Is(err, checkpoint.ErrDamaged) {
		if foreign := checkOurs(ctx, f.path()); foreign != nil {
			return foreign
		}
		return fmt.Errorf("%w; resuming (--resume) does that by itself and goes on, beginning anew (--fresh) deletes it", err)
	}
	if err != nil {
		return err
	}
	list, skipped, err := f.DB.List()
	if err != nil || len(list)+len(skipped) == 0 {
		f.empty = err == nil && errors.Is(before, fs.ErrNotExist)
		return err
	}
	what := f.dir
	if len(list) == 0 {
		what = fmt.Sprintf("%s, though a damaged one: %v", what, skipped[0])
	}
	return hasCheckpoint(what)
}

func hasCheckpoint(what string) error {
	return fmt.Errorf("%w: %s: resume it (--resume), or begin anew and delete it (--fresh)", ErrHasCheckpoint, what)
}

// CheckBegin refuses a folder in which no run can begin: as Open does, but before anything is read or
// planned for the run. What it cannot tell without a lock on the folder is left to Open.
func CheckBegin(dir string) error {
	if err := CheckFolder(dir, Begin); err != nil {
		return err
	}
	if st, err := StatusOf(dir); err == nil && st.State != None {
		return hasCheckpoint(dir)
	}
	return nil
}

// openToResume opens the checkpoints. It first recovers those that damage
// hides: the newest may be among them. An empty file stays as it is.
func (f *Folder) openToResume(ctx context.Context) error {
	f.opt.Checkpoints.Existing = true
	err := f.openDB()
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		return fmt.Errorf("%w; trainer train, with --run %s and without --resume, begins the run", err, f.dir)
	case errors.Is(err, checkpoint.ErrDamaged):
		if err := checkOurs(ctx, f.path()); err != nil {
			return err
		}
		if err := f.recover(ctx); err != nil {
			return err
		}
	case err == nil && f.DB.Unreadable():
		if err := f.DB.Close(); err != nil {
			return err
		}
		if err := f.recover(ctx); err != nil && ctx.Err() != nil {
			return err
		} else if err != nil {
			f.opt.Note(fmt.Sprintf("%s stays as it is: %v", f.path(), err))
		}
	default:
		return err
	}
	return f.openDB()
}

// recover makes a damaged file one that can be written to, and notes the loss.
func (f *Folder) recover(ctx context.Context) error {
	aside, err := checkpoint.Recover(ctx, f.path(), func(s checkpoint.Skipped) {
		f.opt.Note(fmt.Sprintf("skipped %v", s))
	})
	if errors.Is(err, checkpoint.ErrNotFound) {
		err = fmt.Errorf("%w: %s: no checkpoint in it is whole", checkpoint.ErrDamaged, f.path())
	}
	if err != nil {
		return advised(f.dir, err)
	}
	f.aside = aside
	f.opt.Note(fmt.Sprintf("%s was damaged: it now holds what of it is whole, and %s is the file as it was", f.path(), aside))
	return nil
}

// Newest is the newest whole checkpoint, in Resume mode. Damaged ones passed
// over are the second result, also beside an error.
func (f *Folder) Newest(ctx context.Context) (*checkpoint.Snapshot, []checkpoint.Skipped, error) {
	snap, skipped, err := f.DB.Latest(ctx)
	switch {
	case !errors.Is(err, checkpoint.ErrNotFound):
		return snap, skipped, err
	case len(skipped) == 0:
		return nil, nil, nothingToResume(f.dir)
	}
	return nil, skipped, advised(f.dir, noneWhole(f.path(), skipped))
}

// Standing is where a run stands when it starts: the metrics are cut to it.
type Standing struct {
	Step  int // steps taken
	Again int // lines of the steps after this one are written again
	Every int // steps from one line to the next; 0: 1
	Lines int // lines of steps that metrics.jsonl had, at least, when Step was saved
}

// Start makes the files those of this run, whose config is given. It comes after
// everything that can go wrong before the first step, since a fresh run deletes an
// earlier one's files. What others wrote is kept beside them. It returns the last step
// that is logged.
func (f *Folder) Start(ctx context.Context, config []byte, at Standing) (logged int, err error) {
	f.made, f.empty = nil, false
	if f.claim != nil {
		if err := f.forget(); err != nil {
			return 0, err
		}
	}
	if err := f.setConfig(config); err != nil {
		if f.opt.Mode != Resume {
			return 0, err
		}
		// It needs no room for this: its checkpoints hold the config, too.
		f.opt.Note(fmt.Sprintf("%s stays as it was: %v", ConfigName, err))
	}
	f.Metrics, logged, err = openMetrics(ctx, filepath.Join(f.dir, MetricsName), at, f.opt.Warn)
	if err != nil {
		return 0, err
	}
	f.aside = ""
	if f.opt.TensorBoard {
		f.Metrics.events = newEvents(f.dir, at.Step, f.opt.Warn)
	}
	return logged, nil
}

// setConfig writes config.yaml, unless the one there says the same in a user's words. Words
// that it replaces are kept beside it.
func (f *Folder) setConfig(config []byte) error {
	path := filepath.Join(f.dir, ConfigName)
	old, err := osfile.Read(path, configs.MaxFile+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return replace(path, config)
	case err != nil: // it may hold words that only their owner can read
		if err := f.keep(ConfigName); err != nil {
			return err
		}
		return replace(path, config)
	case len(bytes.Trim(old, " \r\n\x00")) == 0 || resolved(old):
		return replace(path, config)
	}
	if c, err := configs.Parse(ConfigName, old, configs.Overlay{}); err == nil {
		if now, err := c.Kept(); err == nil && bytes.Equal(now, config) {
			return nil
		}
	}
	if err := f.keep(ConfigName); err != nil {
		return err
	}
	return replace(path, config)
}

// keep keeps a file that is about to be replaced or deleted, and says so.
func (f *Folder) keep(name string) error {
	aside, err := osfile.KeepAside(filepath.Join(f.dir, name), ".kept")
	if err == nil {
		f.opt.Note(fmt.Sprintf("%s has words that no run wrote: the file as it was is %s", name, aside))
	}
	return err
}

// Fill makes the folder, opened in Begin mode, that of a run that has taken no step: it
// has a config, a tokenizer and its settings unless they are nil, and the checkpoint that save saves last.
// After an error, Close removes what was made.
func (f *Folder) Fill(config, tokenizer, settings []byte, save func(*checkpoint.DB) error) error {
	written := []string{}
	err := func() error {
		for _, x := range []struct {
			name string
			text []byte
		}{{ConfigName, config}, {TokenizerName, tokenizer}, {SettingsName, settings}} {
			if x.text == nil {
				continue
			}
			path := filepath.Join(f.dir, x.name)
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
				written = append(written, path)
			}
			if err := replace(path, x.text); err != nil {
				return err
			}
		}
		return save(f.DB)
	}()
	if err == nil {
		f.made, f.empty = nil, false
		return nil
	}
	for _, path := range written {
		if e := os.Remove(path); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// forget deletes an earlier run's checkpoints, metrics, events and report, and keeps files of
// those names that no run wrote. Nobody else gets the folder meanwhile.
func (f *Folder) forget() (err error) {
	for _, name := range foreign(f.dir) {
		if err := f.keep(name); err != nil {
			return err
		}
	}
	if f.DB, err = f.claim.Replace(f.opt.Checkpoints); err != nil {
		return err
	}
	for _, name := range append(eventFiles(f.dir), MetricsName, ReportName, TokenizerName, SettingsName) {
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// SetTokenizer writes tokenizer.json and, unless they are nil, its settings, for other programs and
// runs: the checkpoints hold them, too. Settings that no run wrote stay as they are, and the user is told.
func (f *Folder) SetTokenizer(text, settings []byte) error {
	if err := replace(filepath.Join(f.dir, TokenizerName), text); err != nil || settings == nil {
		return err
	}
	path := filepath.Join(f.dir, SettingsName)
	if !ownText(path, chat.Written) {
		f.opt.Note(fmt.Sprintf("%s is not of the run, and stays as it is: move it to let the run write its chat template and special tokens there", path))
		return nil
	}
	return replace(path, settings)
}

// Report is report.json as an earlier call left it, nil if there is none. A file
// that is longer than a report with the losses of the metrics is cut off.
func (f *Folder) Report() []byte {
	if f.Metrics == nil {
		return readReport(f.dir, 0)
	}
	return readReport(f.dir, len(f.Metrics.Losses()))
}

// SetReport writes report.json.
func (f *Folder) SetReport(text []byte) error {
	return replace(filepath.Join(f.dir, ReportName), text)
}

// putBack ends a recovery for a run that did not start: the damaged file is in
// its place again. The lock on the recovered one is still held.
func (f *Folder) putBack() error {
	if f.aside == "" {
		return nil
	}
	if err := osfile.Rename(f.aside, f.path()); err != nil {
		return err
	}
	f.aside = ""
	return nil
}

// Close closes all files.
func (f *Folder) Close() error {
	recovered := f.aside != ""
	errs := []error{f.putBack()}
	if f.empty {
		_ = os.Remove(f.path()) // while nobody else can write to it; not every system can
	}
	if f.DB != nil {
		errs = append(errs, f.DB.Close())
	}
	if f.claim != nil {
		errs = append(errs, f.claim.Close())
	}
	f.unmake()
	if f.Metrics != nil {
		errs = append(errs, f.Metrics.close())
	}
	if recovered && f.aside == "" {
		f.opt.Note(fmt.Sprintf("%s was damaged, and is as it was again: the run did not go on", f.path()))
	}
	return errors.Join(errs...)
}
