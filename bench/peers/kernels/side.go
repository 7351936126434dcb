package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// A side is a process that computes with one library, on one instruction set, with one number of threads.
// Libraries read these when they are loaded, each has threads of its own, and what one of them
// breaks does not concern the others.

// sideVariable makes this program a side: it names the library. threadsVariable is its number of threads.
const (
	sideVariable    = "BERTH_KERNELS_SIDE"
	threadsVariable = "BERTH_KERNELS_THREADS"
)

// library computes rows.
type library interface {
	// version names the library, and what it chose for this machine.
	version() string
	// ways are the ways to compute a row, without their ends; errNo if it cannot. The job closes what it holds.
	ways(r *row) ([]job, error)
}

// errNo is the cause where a library does not compute a row.
var errNo = errors.New("not computed by this library")

// job is a row that is ready to run.
type job interface {
	// how names the way.
	how() string
	// run runs once, and tells how long that took.
	run() (time.Duration, error)
	// results are the outputs that are compared, in the order of Berth's, row-major.
	results() ([][]float32, error)
	close() error
}

// request is what a side is asked: one of its fields.
type request struct {
	Prepare string  `json:"prepare,omitempty"` // the row with that name
	Results string  `json:"results,omitempty"` // write the results of a run into that file
	Seconds float64 `json:"seconds,omitempty"` // run for so long
}

// reply is a side's answer.
type reply struct {
	Version string        `json:"version,omitempty"` // the first, which nobody asked for
	No      bool          `json:"no,omitempty"`      // it does not compute this row
	Error   string        `json:"error,omitempty"`
	How     string        `json:"how,omitempty"`
	Least   time.Duration `json:"least,omitempty"`
	Median  time.Duration `json:"median,omitempty"`
	Runs    int           `json:"runs,omitempty"`
}

// isSide reports whether this process is a side.
func isSide() bool { return os.Getenv(sideVariable) != "" }

// serveSide answers requests until there are no more.
func serveSide(in io.Reader, out io.Writer) error {
	lib, err := load(os.Getenv(sideVariable))
	answers := json.NewEncoder(out)
	if err != nil {
		return errors.Join(answers.Encode(reply{Error: err.Error()}), err)
	}
	rows, err := allRows()
	if err != nil {
		return err
	}
	s := &side{lib: lib, rows: rows}
	if err := answers.Encode(reply{Version: lib.version()}); err != nil {
		return err
	}
	for requests := json.NewDecoder(in); ; {
		var q request
		if err := requests.Decode(&q); err != nil {
			return s.drop() // the other end is gone, or has finished
		}
		a, err := s.answer(q)
		if err != nil {
			a = reply{Error: err.Error(), No: errors.Is(err, errNo)}
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// load loads a library by name.
func load(name string) (library, error) {
	threads, err := strconv.Atoi(os.Getenv(threadsVariable))
	if err != nil {
		return nil, err
	}
	switch name {
	case berthName:
		return newBerth(threads)
	case oneDNNName:
		runtime.LockOSThread() // OpenMP's threads belong to the one that began
		return newOneDNN()
	case openBLASName:
		return newOpenBLAS()
	}
	return nil, fmt.Errorf("no library %q", name)
}

// side is the state of a side: at most one job.
type side struct {
	lib  library
	rows []*row
	job  job
}

func (s *side) drop() error {
	if s.job == nil {
		return nil
	}
	err := s.job.close()
	s.job = nil
	return err
}

func (s *side) answer(q request) (reply, error) {
	switch {
	case q.Prepare != "":
		return s.prepare(q.Prepare)
	case s.job == nil:
		return reply{}, errors.New("no row is prepared")
	case q.Results != "":
		return reply{}, s.write(q.Results)
	}
	return s.turn(time.Duration(q.Seconds * float64(time.Second)))
}

// prepare makes a row's job, of the way that is fastest in a short try.
func (s *side) prepare(name string) (a reply, err error) {
	if err := s.drop(); err != nil {
		return a, err
	}
	i := slices.IndexFunc(s.rows, func(r *row) bool { return r.name == name })
	if i < 0 {
		return a, fmt.Errorf("no row %q", name)
	}
	ways, err := s.lib.ways(s.rows[i])
	var fastest time.Duration
	for _, j := range ways {
		took, e := try(j, len(ways) > 1)
		if e == nil && (s.job == nil || took < fastest) {
			j, s.job, fastest = s.job, j, took
		}
		if j != nil {
			e = errors.Join(e, j.close())
		}
		err = errors.Join(err, e)
	}
	if err != nil {
		return a, errors.Join(err, s.drop())
	}
	return reply{How: s.job.how()}, nil
}

// try is the least time of a few runs, of none if there is nothing to choose.
func try(j job, choose bool) (least time.Duration, err error) {
	for i := 0; choose && i < 4; i++ {
		took, err := j.run()
		if err != nil {
			return 0, err
		}
		if i == 1 || took < least { // the first one is slow
			least = took
		}
	}
	return least, nil
}

// turn runs the job again and again, once at least. The first run, which finds nothing in the caches and
// wakes threads, counts only where it alone takes longer than the turn.
func (s *side) turn(length time.Duration) (a reply, err error) {
	var took []time.Duration
	for start := time.Now(); len(took) < 2 || time.Since(start) < length; {
		t, err := s.job.run()
		if err != nil {
			return a, err
		}
		took = append(took, t)
		if len(took) == 1 && t > length {
			took = append(took, t)
		}
	}
	took = took[1:]
	slices.Sort(took)
	return reply{Least: took[0], Median: took[len(took)/2], Runs: len(took)}, nil
}

// write runs the job and writes its results into a file: for each the number of its elements, and these.
func (s *side) write(file string) error {
	if _, err := s.job.run(); err != nil {
		return err
	}
	all, err := s.job.results()
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	for _, x := range all {
		err = errors.Join(err, binary.Write(f, binary.LittleEndian, int64(len(x))), binary.Write(f, binary.LittleEndian, x))
	}
	return errors.Join(err, f.Close())
}

// readResults reads what write has written.
func readResults(file string) (all [][]float32, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		var n int64
		if err := binary.Read(f, binary.LittleEndian, &n); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		x := make([]float32, n)
		if err := binary.Read(f, binary.LittleEndian, x); err != nil {
			return nil, err
		}
		all = append(all, x)
	}
}
