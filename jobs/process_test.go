package jobs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

func init() { jobs.BeDaemon = beDaemon }

// faultsIn is the environment variable that has the faults of a daemon's devices, with commas between.
const faultsIn = "JOBS_FAULTS"

// programIn is the environment variable that names the daemon's program.
const programIn = "JOBS_PROGRAM"

// writesIn is in the environment of a daemon whose disk is full now and then: beBeset, where the system can have one.
const writesIn = "JOBS_WRITES"

var beBeset func(dir string) error

const version = "test"

// beDaemon is what `trainer up` does, and says when it has the queue. It ends with an error when a job runs twice at
// once, be it in two processes.
func beDaemon(dir string) error {
	if os.Getenv(writesIn) != "" {
		return beBeset(dir)
	}
	path, devices := filepath.Join(dir, "queue.db"), configs.Devices{Use: "cpu:2"}
	once := &once{dir: dir, locks: map[string]*os.File{}}
	d, err := jobs.Open(jobs.Options{Queue: path, Devices: devices, Told: once.told, Program: os.Getenv(programIn)})
	if err != nil {
		return err
	}
	if err := breakDevices(d, devices); err != nil {
		return err
	}
	fmt.Println("open")
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- socket.Serve(ctx, socket.Path(path), d, socket.ThisProgram(version), func(bool) { cancel() })
	}()
	err = d.Run(ctx)
	cancel()
	return errors.Join(err, <-served, d.Close())
}

func breakDevices(d *jobs.Daemon, devices configs.Devices) error {
	text := os.Getenv(faultsIn)
	if text == "" {
		return nil
	}
	var faults []fault.Fault
	for _, x := range strings.Split(text, ",") {
		f, err := fault.Parse(x)
		if err != nil {
			return err
		}
		faults = append(faults, f)
	}
	return d.Break(devices, faults)
}

// once has a locked file for each job that has begun and not ended. The system unlocks those of a
// process that was killed.
type once struct {
	dir   string
	mu    sync.Mutex
	locks map[string]*os.File
}

func (o *once) told(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name, _, _ := strings.Cut(line, " (")
	if _, begins, _ := strings.Cut(line, ") "); !strings.HasPrefix(begins, "begins") {
		if f := o.locks[name]; f != nil {
			f.Close()
		}
		delete(o.locks, name)
		return
	}
	f, err := os.OpenFile(filepath.Join(o.dir, name+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		var got bool
		if got, err = osfile.Lock(f, true); err == nil && !got {
			err = errors.New("it runs already")
		}
	}
	if err != nil {
		fmt.Printf("%s: %v\n", line, err)
		os.Exit(1)
	}
	o.locks[name] = f
}

// process is a daemon in a process of its own.
type process struct {
	cmd  *exec.Cmd
	out  *bufio.Reader
	path string // of the queue
}

// startProcess starts a daemon that must open the queue in dir.
func startProcess(t rapid.TB, dir string, env ...string) *process {
	t.Helper()
	p, said := tryProcess(t, dir, env...)
	if p == nil {
		t.Fatalf("daemon: %s", said)
	}
	return p
}

// tryProcess waits until the daemon has the queue in dir. Where it ends before, there is no process, and
// what it said.
func tryProcess(t rapid.TB, dir string, env ...string) (*process, string) {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), path: filepath.Join(dir, "queue.db")}
	p.cmd.Env = append(append(os.Environ(), jobs.DaemonIn+"="+dir), env...)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if line, _ := p.out.ReadString('\n'); line != "open\n" {
		rest, _ := io.ReadAll(p.out)
		_ = p.cmd.Wait()
		return nil, line + string(rest)
	}
	return p, ""
}

// dial reaches the daemon, which may not answer yet.
func (p *process) dial(ctx context.Context) (c *socket.Client, err error) {
	for {
		c, err = socket.Dial(ctx, socket.Path(p.path), socket.ThisProgram(version))
		if err == nil || !errors.Is(err, socket.ErrNoDaemon) || ctx.Err() != nil {
			return c, err
		}
		time.Sleep(time.Millisecond)
	}
}

// kill ends the process, which must not have ended by itself.
func (p *process) kill(t rapid.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(p.out)
	var ended *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &ended) || ended.Exited() {
		t.Fatalf("the daemon ended by itself: %v: %s", err, said)
	}
}

// down ends the process as `trainer down` does, and returns what it said if it failed.
func (p *process) down(t rapid.TB, c *socket.Client) (said string) {
	t.Helper()
	if err := c.Down(context.Background(), false); err != nil {
		t.Error(err)
	}
	text, _ := io.ReadAll(p.out)
	if err := p.cmd.Wait(); err != nil {
		return fmt.Sprintf("%s%v", text, err)
	}
	return ""
}

// blamed says whether a job failed since it ran alone in two processes that were killed.
func blamed(j *queue.Job) bool {
	return j.State == queue.Failed && strings.Contains(j.Failure(), "for the second time")
}

// attempted finds attempts of a job that overlap, and those that failed for another reason than a lost
// device.
func attempted(j *queue.Job) error {
	for i, a := range j.Attempts {
		if i > 0 && a.Began.Before(j.Attempts[i-1].Ended) {
			return fmt.Errorf("job %d: attempt %d began before the last one had ended", j.ID, i+1)
		}
		if a.Error != "" && !strings.Contains(a.Error, "for the second time") && !strings.Contains(a.Error, "device is lost") {
			return fmt.Errorf("job %d: attempt %d failed: %s", j.ID, i+1, a.Error)
		}
	}
	return nil
}
