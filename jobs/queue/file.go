package queue

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/osfile"
)

// format is the version of the file: jobs has a record for each number, configs the YAML of
// each, and meta the version.
const format = 1

// The buckets.
var (
	metaBucket    = []byte("meta")
	jobsBucket    = []byte("jobs")
	configsBucket = []byte("configs")
	formatKey     = []byte("format")
)

// record is a job in the file.
type record struct {
	Job
	Key string
}

// file is the open file, which no other process has open.
type file struct {
	path   string
	db     *bbolt.DB
	broken error // set after a panic of bbolt
}

// openFile opens the file at path, and makes it and its folder where there are none. Only
// their owner may read them. It reads all of a file that was there, so that damage is found
// before anything is written.
func openFile(path string) (*file, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("folder of the queue: %w", err)
	}
	locked, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	f := &file{path: path}
	err = f.guard(func() (err error) {
		f.db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			FreelistType: bbolt.FreelistMapType,
			OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return locked, nil },
		})
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("queue %s: %w", path, err), osfile.Unlock(locked), locked.Close())
	}
	if err := f.prepare(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	osfile.LeavePid(path)
	return f, nil
}

// damaged is the error about a file that nobody but its program should have written to.
func damaged(path, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w: move the file away, and a new queue is made; `trainer resume` goes on with each run", ErrDamaged, path, fmt.Errorf(format, args...))
}

// guard runs do, which calls bbolt, and turns a panic or a fault in the mapped file into an
// error. After that bbolt is not called again, since its locks may be held.
func (f *file) guard(do func() error) (err error) {
	if f.broken != nil {
		return f.broken
	}
	faults := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(faults)
		if p := recover(); p != nil {
			err = damaged(f.path, "bbolt panicked: %v", p)
			f.broken = err
		}
	}()
	if err := do(); !errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return err
	}
	return ErrClosed
}

// commit is how the file changes. The tests end the process before and after it.
var commit = (*bbolt.DB).Update

func (f *file) update(do func(*bbolt.Tx) error) error {
	return f.guard(func() error { return commit(f.db, do) })
}

func (f *file) view(do func(*bbolt.Tx) error) error {
	return f.guard(func() error { return f.db.View(do) })
}

// patience is how long another process may still have the file: a command holds it for the time of
// a request where no daemon runs.
const patience = time.Second

// openLocked opens and locks the file, as bbolt does then once more, and checks its pages: bbolt
// trusts them.
func openLocked(path string) (*os.File, error) {
	file, err := osfile.OpenMode(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("queue of jobs: %w", err)
	}
	got, err := osfile.Lock(file, true)
	for began := time.Now(); err == nil && !got && time.Since(began) < patience; got, err = osfile.Lock(file, true) {
		time.Sleep(patience / 50)
	}
	if err == nil && !got {
		err = held(path)
	}
	if err == nil {
		var unused bool
		if unused, err = checkpoint.CheckPages(file); err != nil {
			err = damaged(path, "%w", err)
		} else if unused {
			err = file.Truncate(0)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Holder is the process that has the queue in the file at path; 0 if none does, or none is known.
func Holder(path string) int {
	if pid, alive := osfile.LeftPid(path); alive {
		return pid
	}
	return 0
}

// held is the error about a file that another process has.
func held(path string) error {
	by := "another process"
	if pid := Holder(path); pid != 0 {
		by = fmt.Sprintf("process %d", pid)
	}
	return fmt.Errorf("%w by %s: %s: if that is trainer up, trainer submit gives it jobs and trainer down ends it; BERTH_QUEUE names another file", ErrHeld, by, path)
}

// prepare makes the buckets of a new file, and checks the version of another.
func (f *file) prepare() error {
	return f.update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{metaBucket, jobsBucket, configsBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return fmt.Errorf("queue %s: %w", f.path, err)
			}
		}
		meta := tx.Bucket(metaBucket)
		version := meta.Get(formatKey)
		switch {
		case version == nil:
			return meta.Put(formatKey, number(format))
		case len(version) != 8 || binary.BigEndian.Uint64(version) < 1:
			return damaged(f.path, "it does not say its format")
		case binary.BigEndian.Uint64(version) > format:
			return fmt.Errorf("%w: %s has format %d, and this program knows formats up to %d: use the program that made it, or a newer one",
				ErrFormat, f.path, binary.BigEndian.Uint64(version), format)
		}
		return nil
	})
}

// number is a key that sorts as the number does.
func number(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// jobs reads all jobs.
func (f *file) jobs() (jobs map[int]*Job, err error) {
	jobs = map[int]*Job{}
	err = f.view(func(tx *bbolt.Tx) error {
		configs := tx.Bucket(configsBucket)
		return tx.Bucket(jobsBucket).ForEach(func(k, v []byte) error {
			var r record
			text, err := unseal(v)
			if err == nil {
				err = json.Unmarshal(text, &r)
			}
			if _, lost := unseal(configs.Get(k)); err == nil {
				err = lost
			}
			if err == nil && string(number(r.ID)) != string(k) {
				err = fmt.Errorf("it is of job %d", r.ID)
			}
			if err != nil {
				return damaged(f.path, "the record of job %x: %w", k, err)
			}
			r.Job.key = r.Key
			jobs[r.ID] = &r.Job
			return nil
		})
	})
	return jobs, err
}

// add gives jobs their numbers, in turn, and writes them, all in one transaction. numbered is called in between.
func (f *file) add(jobs []*Job, configs [][]byte, numbered func()) error {
	return f.update(func(tx *bbolt.Tx) error {
		for _, j := range jobs {
			id, err := tx.Bucket(jobsBucket).NextSequence()
			if err != nil {
				return err
			}
			j.ID = int(id)
		}
		numbered()
		for i, j := range jobs {
			if err := tx.Bucket(configsBucket).Put(number(j.ID), seal(configs[i])); err != nil {
				return err
			}
			if err := putRecord(tx, j); err != nil {
				return err
			}
		}
		return nil
	})
}

// plan writes a job that the file has, with another config unless that is nil.
func (f *file) plan(j *Job, config []byte) error {
	return f.update(func(tx *bbolt.Tx) error {
		if config != nil {
			if err := tx.Bucket(configsBucket).Put(number(j.ID), seal(config)); err != nil {
				return err
			}
		}
		return putRecord(tx, j)
	})
}

// put writes jobs that the file has, all in one transaction.
func (f *file) put(jobs ...*Job) error {
	return f.update(func(tx *bbolt.Tx) error {
		for _, j := range jobs {
			if err := putRecord(tx, j); err != nil {
				return err
			}
		}
		return nil
	})
}

func putRecord(tx *bbolt.Tx, j *Job) error {
	text, err := json.Marshal(record{*j, j.key})
	if err != nil {
		return err
	}
	return tx.Bucket(jobsBucket).Put(number(j.ID), seal(text))
}

// seal puts a checksum before a value, since bbolt has none.
func seal(text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(text)), text...)
}

func unseal(v []byte) (text []byte, err error) {
	if len(v) < 4 || binary.BigEndian.Uint32(v) != crc32.ChecksumIEEE(v[4:]) {
		return nil, errors.New("its checksum is wrong")
	}
	return v[4:], nil
}

// remove forgets jobs, all in one transaction.
func (f *file) remove(jobs ...*Job) error {
	return f.update(func(tx *bbolt.Tx) (err error) {
		for _, j := range jobs {
			err = errors.Join(err, tx.Bucket(jobsBucket).Delete(number(j.ID)), tx.Bucket(configsBucket).Delete(number(j.ID)))
		}
		return err
	})
}

func (f *file) config(id int) (text []byte, err error) {
	err = f.view(func(tx *bbolt.Tx) error {
		v := tx.Bucket(configsBucket).Get(number(id))
		if v == nil {
			return fmt.Errorf("%w: job %d", ErrNoJob, id)
		}
		sealed, err := unseal(v)
		if err != nil {
			return damaged(f.path, "config of job %d: %w", id, err)
		}
		text = append(text, sealed...)
		return nil
	})
	return text, err
}

// enoughRoom is how many bytes the disk must take before it counts as one with room.
const enoughRoom = 256 << 10

// room fails while the disk takes no file of enoughRoom beside the queue. It leaves none there.
func (f *file) room() (err error) {
	path := osfile.Beside(f.path, ".room")
	probe, err := osfile.OpenMode(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, probe.Close(), os.Remove(path)) }()
	if _, err := probe.Write(make([]byte, enoughRoom)); err != nil {
		return err
	}
	return probe.Sync()
}

func (f *file) close() error {
	osfile.RemovePid(f.path)
	return f.guard(f.db.Close)
}
