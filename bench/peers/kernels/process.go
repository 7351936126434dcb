package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a side, as the process that compares sees it. It is stopped (SIGSTOP) but for its turns:
// threads that wait for the next product by spinning would take the cores from the others.
type process struct {
	name    string
	version string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	errs    *strings.Builder
	dead    bool
}

// start starts a side.
func start(ctx context.Context, name, level string, threads int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: exec.CommandContext(ctx, self), errs: &strings.Builder{}}
	p.cmd.Env = append(os.Environ(), environment(name, level, threads)...)
	p.cmd.SysProcAttr = dieWithParent()
	p.cmd.Stderr = p.errs
	out, err1 := p.cmd.StdoutPipe()
	p.in, err = p.cmd.StdinPipe()
	if err := errors.Join(err, err1); err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	hello, err := p.receive()
	if err == nil && hello.Error != "" {
		p.dead, err = true, errors.New(hello.Error) // it has ended with that
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.version = hello.Version
	return p, p.stop()
}

// environment is a side's variables: what makes each library take a level of Berth's instruction sets, and so many
// threads. The generic level bounds Berth alone.
func environment(name, level string, threads int) []string {
	n := fmt.Sprint(threads)
	vars := []string{
		sideVariable + "=" + name, threadsVariable + "=" + n, "BERTH_CPU=" + level,
		"OMP_NUM_THREADS=" + n, "OMP_DYNAMIC=false", "OPENBLAS_NUM_THREADS=" + n,
	}
	switch level {
	case "avx2":
		vars = append(vars, "DNNL_MAX_CPU_ISA=AVX2", "OPENBLAS_CORETYPE=Haswell")
	case "avx512":
		vars = append(vars, "DNNL_MAX_CPU_ISA=AVX512_CORE_BF16", "OPENBLAS_CORETYPE=SkylakeX")
	case "amx":
		vars = append(vars, "DNNL_MAX_CPU_ISA=ALL", "OPENBLAS_CORETYPE=SapphireRapids")
	}
	return vars
}

func (p *process) stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// send wakes the side and asks it.
func (p *process) send(q request) error {
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return json.NewEncoder(p.in).Encode(q)
}

// receive waits for an answer.
func (p *process) receive() (a reply, err error) {
	if err := p.out.Decode(&a); err != nil {
		p.dead = true
		return a, fmt.Errorf("%s's process ended: %w: %s", p.name, err, strings.TrimSpace(p.errs.String()))
	}
	return a, nil
}

// ask asks the side, and stops it once it has answered.
func (p *process) ask(q request) (reply, error) {
	if err := p.send(q); err != nil {
		p.dead = true
		return reply{}, fmt.Errorf("%s's process: %w", p.name, err)
	}
	a, err := p.receive()
	if err != nil {
		return a, err
	}
	if a.Error != "" && !a.No {
		err = fmt.Errorf("%s: %s", p.name, a.Error)
	}
	return a, errors.Join(err, p.stop())
}

// close ends the side.
func (p *process) close() error {
	err := p.in.Close()
	if p.cmd.Process == nil {
		return err
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // it may have ended
	ended := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer ended.Stop()
	if e := p.cmd.Wait(); !p.dead {
		err = errors.Join(err, e)
	}
	return err
}
