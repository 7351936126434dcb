package socket

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/build"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

// protocol is the version of the requests and answers.
const protocol = 1

// Program tells one program from another.
type Program struct {
	Protocol int
	Version  string // of the build, as far as it says
	Keys     string // a hash of all keys that configs may have, with those that the program registered
	Process  int
	Only     int `json:",omitempty"` // the one job that it trains; 0: all
}

// ThisProgram is the program that calls it. version names its build: see [Version].
func ThisProgram(version string) Program {
	sum := sha256.Sum256([]byte(configs.Reference()))
	return Program{Protocol: protocol, Version: version, Keys: hex.EncodeToString(sum[:8]), Process: os.Getpid()}
}

// differs says how a daemon's program differs from a client's; nil if they are the same.
func (p Program) differs(daemon Program) error {
	var what string
	switch {
	case p.Protocol != daemon.Protocol:
		what = fmt.Sprintf("it speaks protocol %d, and this program %d", daemon.Protocol, p.Protocol)
	case !build.SameRevision(p.Version, daemon.Version):
		what = fmt.Sprintf("it has version %s, and this program %s", daemon.Version, p.Version)
	case p.Keys != daemon.Keys:
		what = "other layers, losses or keys are registered in it than in this program"
	default:
		return nil
	}
	return fmt.Errorf("%w (process %d): %s. `trainer down` saves its jobs and ends it; start `trainer up` then of this program's version and with what it registers, and they go on", ErrProgram, daemon.Process, what)
}

// The causes of errors of a client.
var (
	ErrNoDaemon = errors.New("no daemon runs: start one with `trainer up`")
	ErrNoAnswer = errors.New("the daemon did not answer") // whether it did what was asked for, is not known
	ErrProgram  = errors.New("the daemon is another program")
	ErrOwner    = errors.New("the socket is not this user's alone")
	ErrSystem   = errors.New("trainer up is not there on Windows yet: trainer submit CONFIG --wait trains a job, a sweep or a pipeline by itself")

	errPath = errors.New("socket")
)

// The bodies of requests.
type (
	change struct {
		Wish     queue.Wish `json:",omitempty"`
		Priority *int       `json:",omitempty"`
	}
	ending struct {
		Finish bool
	}
	failure struct {
		Error string
		Cause string `json:",omitempty"`
		Usage bool   `json:",omitempty"` // berth.IsUsage
	}
)

// listing is the answer to a request for all jobs.
type listing struct {
	Jobs []jobs.View
	Full string `json:",omitempty"` // why the disk takes no more of the queue
}

// causes are the errors that keep their identity on the way to a client.
var causes = map[string]error{
	"closed": queue.ErrClosed, "no_job": queue.ErrNoJob, "state": queue.ErrState, "key": queue.ErrKey,
	"no_step": berth.ErrNoStep, "in_use": berth.ErrInUse,
}

// Supported is ErrSystem where this system has no sockets for a daemon, so that none runs; nil elsewhere.
func Supported() error { return supported(runtime.GOOS) }

func supported(system string) error {
	if system == "windows" {
		return ErrSystem
	}
	return nil
}

// Path is the socket of the daemon whose queue is in a file.
func Path(queue string) string {
	return filepath.Join(filepath.Dir(queue), filepath.Base(queue)+".sock")
}
