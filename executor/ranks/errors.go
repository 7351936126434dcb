package ranks

import "errors"

// Errors that callers match with errors.Is.
var (
	// ErrLaunch: the processes were not started as ranks of one run.
	ErrLaunch = errors.New("the launch")
	// ErrLibrary: MPI cannot be loaded, or is one that is not known.
	ErrLibrary = errors.New("the MPI library")
	// ErrCarrier: messages cannot be carried any more, such as to a process that has ended.
	ErrCarrier = errors.New("the ranks cannot reach each other: one has ended, or its machine; start all again")
	// ErrEnded: this rank has failed, and sends and receives nothing any more.
	ErrEnded = errors.New("this rank has ended its messages")
)
