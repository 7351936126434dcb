package gen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// job is the work of a child process of the tests. Each library has a process of its own,
// so that no process has two compilers, and a kernel that kills the process shows.
type job struct {
	Library string
	Options string // of the compiler
	Each    int    // see drawnOfAll
	Work    int64  // see drawnOfAll
	Groups  []int  // sizes of work groups, in turns
	Planted bool   // runs the planted kernels too
}

const childJob = "TEST_OPENCL_JOB"

var sweep = flag.Bool("sweep", false, "check kernels on all inputs that are drawn: takes many minutes")

func TestMain(m *testing.M) {
	if text := os.Getenv(childJob); text != "" {
		runtime.LockOSThread()
		var j job
		if err := errors.Join(json.Unmarshal([]byte(text), &j), j.run()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// run is the child's work. It writes a line for each trial to the standard error, after
// the library's complaints about the trial.
func (j job) run() error {
	d, err := openDriver(j.Library)
	if err != nil {
		return err
	}
	trials := j.trials()
	var text strings.Builder
	text.WriteString(OpenCL + moveWords)
	for _, c := range kernelsOf(trials) {
		text.WriteString(c.Source)
	}
	if err := d.compile(text.String(), "-cl-std=CL1.2 "+j.Options); err != nil {
		return err
	}
	for _, s := range trials {
		for _, g := range j.Groups {
			o, err := d.runTrial(s, g)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			line, err := json.Marshal(result{Name: s.name, Planted: s.planted, Group: g, effect: o})
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s%s\n", resultMark, line)
		}
	}
	return nil
}

// trials are those of the job.
func (j job) trials() (trials []trial) {
	if j.Planted {
		trials = planted()
	}
	return append(trials, drawnOfAll(j.Each, j.Work)...)
}

// result is the effect of a trial.
type result struct {
	Name    string
	Planted bool
	Group   int
	effect
	Complaints string `json:"-"` // of the library
}

const resultMark = "result: "

// inChild runs a job in a process of its own.
func (j job) inChild(t *testing.T, env ...string) (results []result) {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childJob+"="+string(text)), env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", j.Library, err, output.String())
	}
	var complaints strings.Builder
	lines := bufio.NewScanner(&output)
	for lines.Scan() {
		line, ok := strings.CutPrefix(lines.Text(), resultMark)
		if !ok {
			complaints.WriteString(line + "\n")
			continue
		}
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		r.Complaints = strings.TrimSpace(complaints.String())
		complaints.Reset()
		results = append(results, r)
	}
	return results
}

// oclgrind is the path of Oclgrind's library.
func oclgrind(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("oclgrind")
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	return filepath.Join(filepath.Dir(program), "..", "lib", "oclgrind", "liboclgrind-rt.so")
}

// Oclgrind finds no race, no uninitialised number and no access beside the values in any
// template. It finds those that are planted. The installed driver gives the same bits.
func TestKernelsOnDrivers(t *testing.T) {
	if !testall.Wanted() {
		t.Skip("takes longer: TEST_ALL=1 runs it")
	}
	j := job{Library: oclgrind(t), Options: "-cl-opt-disable", Each: 3, Work: 6000, Groups: []int{GroupLanes}, Planted: true}
	if *sweep {
		j.Each, j.Work = seeds, 50000
	}
	checked := j.inChild(t, "OCLGRIND_DATA_RACES=1", "OCLGRIND_UNINITIALIZED=1", "OCLGRIND_MAX_ERRORS=1000000")
	bits := map[string]string{}
	for _, r := range checked {
		if r.Planted {
			r.checkPlanted(t)
		} else if r.Complaints != "" || !r.Intact {
			t.Errorf("%s: memory beside the values is intact: %v; Oclgrind: %s", r.Name, r.Intact, r.Complaints)
		}
		bits[r.Name] = r.Bits
	}
	j = job{Library: "libOpenCL.so.1", Each: (j.Each + 2) / 3, Work: j.Work, Groups: []int{16}}
	driven := j.inChild(t)
	for _, r := range driven {
		if bits[r.Name] != r.Bits {
			t.Errorf("%s, groups of %d lanes: the checksum of the results is %s, but with Oclgrind %s", r.Name, r.Group, r.Bits, bits[r.Name])
		}
	}
	t.Log(len(checked), "runs by Oclgrind,", len(driven), "by the driver")
}
