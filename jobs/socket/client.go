package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

// mostAnswer is the most that a client reads of an answer.
const mostAnswer = 256 << 20

// helloTime is how long a daemon may take to say who it is, which takes it no time.
const helloTime = 30 * time.Second

// Client asks a daemon. Its methods are those of [jobs.Daemon], and safe for concurrent use.
type Client struct {
	http   http.Client
	daemon Program
	other  error // how the daemon's program differs from this one
}

// Dial reaches the daemon at a socket. ErrNoDaemon says that there is none, and ErrNoAnswer that it hangs.
func Dial(ctx context.Context, path string, p Program) (*Client, error) {
	return dialWithin(ctx, helloTime, path, p)
}

func dialWithin(ctx context.Context, most time.Duration, path string, p Program) (*Client, error) {
	if Supported() != nil {
		return nil, ErrNoDaemon
	}
	c := &Client{}
	// A connection that is not used is closed before the daemon would: a change that is sent just then would get no answer.
	c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dial(ctx, path)
	}, MaxIdleConns: 1, IdleConnTimeout: slowest / 2}
	hello, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := c.ask(hello, http.MethodGet, "/hello", nil, &c.daemon)
	switch {
	case err != nil && hello.Err() != nil && ctx.Err() == nil: // the caller has set no such bound
		return nil, fmt.Errorf("%w%s", ErrNoAnswer, within(most))
	case err != nil:
		return nil, err
	}
	c.other = p.differs(c.daemon)
	return c, nil
}

// dial connects to the socket if it is this user's alone.
func dial(ctx context.Context, path string) (net.Conn, error) {
	if err := ownedAlone(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoDaemon
	} else if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, ErrNoDaemon
	case errors.Is(err, syscall.EINVAL) && tooLong(path) != "":
		return nil, fmt.Errorf("%w %s%s", errPath, path, tooLong(path))
	case err != nil:
		return nil, err
	case !sameUser(conn):
		conn.Close()
		return nil, fmt.Errorf("%w: another user's process answers at %s", ErrOwner, path)
	}
	return conn, nil
}

// Daemon is the program that answers.
func (c *Client) Daemon() Program { return c.daemon }

// Other says how the daemon's program differs from this one; nil if they are the same.
func (c *Client) Other() error { return c.other }

// Close gives the connections free.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Submit queues a job.
func (c *Client) Submit(ctx context.Context, s jobs.Submission) (j queue.Job, err error) {
	if c.other != nil {
		return queue.Job{}, c.other
	}
	return j, c.ask(ctx, http.MethodPost, "/jobs", s, &j)
}

// Views are all jobs, by number. full says why the disk takes no more of
// the daemon's queue: see [jobs.Daemon.Full].
func (c *Client) Views(ctx context.Context) (list []jobs.View, full string, err error) {
	var l listing
	err = c.ask(ctx, http.MethodGet, "/jobs", nil, &l)
	return l.Jobs, l.Full, err
}

// Memory says who has the memory of the daemon's devices: see [jobs.Daemon.Memory].
func (c *Client) Memory(ctx context.Context) (m berth.Memory, err error) {
	err = c.ask(ctx, http.MethodGet, "/memory", nil, &m)
	if err != nil && c.other != nil { // it may be too old to say
		err = c.other
	}
	return m, err
}

// View is one job.
func (c *Client) View(ctx context.Context, id int) (v jobs.View, err error) {
	return v, c.ask(ctx, http.MethodGet, fmt.Sprintf("/jobs/%d", id), nil, &v)
}

// Config is the config of a job.
func (c *Client) Config(ctx context.Context, id int) (text string, err error) {
	return text, c.ask(ctx, http.MethodGet, fmt.Sprintf("/jobs/%d/config", id), nil, &text)
}

// TraceStep asks a job's training for the trace of its next step. A daemon of another program may not mean the same by it.
func (c *Client) TraceStep(ctx context.Context, id int) (t *berth.StepTrace, err error) {
	if c.other != nil {
		return nil, c.other
	}
	return t, c.ask(ctx, http.MethodGet, fmt.Sprintf("/jobs/%d/step", id), nil, &t)
}

// Want changes what is wanted of a job.
func (c *Client) Want(ctx context.Context, id int, w queue.Wish) (j queue.Job, err error) {
	return c.change(ctx, id, change{Wish: w})
}

// SetPriority changes a job's place in the line.
func (c *Client) SetPriority(ctx context.Context, id, priority int) (j queue.Job, err error) {
	return c.change(ctx, id, change{Priority: &priority})
}

func (c *Client) change(ctx context.Context, id int, to change) (j queue.Job, err error) {
	if c.other != nil {
		return queue.Job{}, c.other
	}
	return j, c.ask(ctx, http.MethodPatch, fmt.Sprintf("/jobs/%d", id), to, &j)
}

// Remove forgets a job.
func (c *Client) Remove(ctx context.Context, id int) error {
	if c.other != nil {
		return c.other
	}
	return c.ask(ctx, http.MethodDelete, fmt.Sprintf("/jobs/%d", id), nil, &struct{}{})
}

// Down ends the daemon: its running jobs are saved, or, with finish, trained to their end.
func (c *Client) Down(ctx context.Context, finish bool) error {
	return c.ask(ctx, http.MethodPost, "/down", ending{finish}, &c.daemon)
}

// Gone waits until the daemon has ended.
func (c *Client) Gone(ctx context.Context) error {
	for {
		var p Program
		switch err := c.ask(ctx, http.MethodGet, "/hello", nil, &p); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil, p.Process != c.daemon.Process:
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ask sends a request and reads the answer.
func (c *Client) ask(ctx context.Context, method, path string, body, into any) error {
	began := time.Now()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://daemon"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return plain(err, time.Since(began))
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return plain(err, time.Since(began))
	case err != nil:
		return fmt.Errorf("%w: it was cut short: %w", ErrNoAnswer, err)
	}
	if answer.StatusCode != http.StatusOK {
		return refusal(answer.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the daemon's answer cannot be read: %w", err)
	}
	return nil
}

// plain words an error that came after some time, without the made-up address.
func plain(err error, after time.Duration) error {
	var made *url.Error
	if errors.As(err, &made) {
		err = made.Err
	}
	if errors.Is(err, ErrNoDaemon) || errors.Is(err, ErrOwner) || errors.Is(err, errPath) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &refused{ErrNoAnswer.Error() + within(after), errors.Join(ErrNoAnswer, context.DeadlineExceeded)}
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

// within says for how long a daemon has not answered, and what to do.
func within(d time.Duration) string {
	return fmt.Sprintf(" within %d s: its process, trainer up, may be stopped, or the machine overloaded. Try again, or end that process and start trainer up anew, which goes on from what was saved", max(1, int(d.Round(time.Second).Seconds())))
}

// refused is an error with a text of its own, such as one of the daemon.
type refused struct {
	text  string
	cause error
}

func (e *refused) Error() string { return e.text }
func (e *refused) Unwrap() error { return e.cause }

func refusal(status int, text []byte) error {
	var f failure
	if err := json.Unmarshal(text, &f); err != nil || f.Error == "" {
		return fmt.Errorf("the daemon answered with status %d", status)
	}
	cause := causes[f.Cause]
	if f.Usage {
		cause = errors.Join(cause, berth.ErrOptions)
	}
	return &refused{f.Error, cause}
}
