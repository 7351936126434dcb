package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/cmd/trainer/ui"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/build"
)

// pageAddress is where the page is served if nobody says.
const pageAddress = "127.0.0.1:8123"

func uiCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ui [DIR]",
		Short: "Show runs and jobs live in a browser, on a page that only reads",
		Long: "Serve a page with the runs in DIR (default: runs) and the jobs of the queue: a live table, the curves, config and checkpoints of a run, runs compared, and who has the memory of the daemon's devices. GET /metrics has numbers for Prometheus. It changes, starts and stops nothing, and needs no network. The URL has a token, without which nobody gets anything. docs/page.md has more.\n" +
			"Ctrl-C ends it.",
		Example: "  trainer ui --open\n  trainer ui experiments --address 127.0.0.1:9000",
		Args:    cli.ArgsBetween(0, 1),
	}
	address := c.Flags().String("address", pageAddress, "listen at `HOST:PORT`; port 0 takes a free one")
	open := c.Flags().Bool("open", false, "open the page in the browser")
	c.RunE = func(c *cobra.Command, args []string) error {
		dir := "runs"
		if len(args) > 0 {
			dir = args[0]
		}
		if err := checkFolder(dir, len(args) > 0); err != nil {
			return err
		}
		return showPage(c, dir, *address, *open)
	}
	return c
}

// checkFolder refuses what has no run folders. The default one may come later.
func checkFolder(dir string, given bool) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && !given:
		return nil
	case err != nil || !st.IsDir():
		return cli.Usagef("%s is no folder: name one that holds run folders", dir)
	case rundir.IsRun(dir):
		return cli.Usagef("%s is a run: name the folder that it is in, such as %s", dir, filepath.Dir(dir))
	}
	return nil
}

// showPage serves the page until the command is to end.
func showPage(c *cobra.Command, dir, address string, open bool) (err error) {
	ctx := c.Context()
	list := queued.NewLister(build.Revision())
	p, err := servePage(c, address, ui.Options{Folder: dir, Jobs: list.List, Memory: list.Memory, Plan: drawApart, Config: list.Config, Trace: traceJob})
	if err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), p.url)
	if open {
		closed, err := openBrowser(ctx, p.url)
		if err != nil {
			cli.Tell(c, c.ErrOrStderr(), fmt.Sprintf("no browser was opened (%v): open the URL above", err))
		}
		defer closed()
	}
	select {
	case err := <-p.ended:
		p.ended <- err
	case <-ctx.Done():
	}
	return p.close()
}

// page is the page while it is served.
type page struct {
	url    string
	server *ui.Server
	http   *http.Server
	ended  chan error
}

// servePage serves the page that o describes, but for its host and log. The caller closes it.
func servePage(c *cobra.Command, address string, o ui.Options) (*page, error) {
	host, err := checkAddress(address)
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(c.Context(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--address %s: %w; another port may be free (port 0 takes one)", address, err)
	}
	o.Host, o.Log = host, func(text string) { cli.Tell(c, c.ErrOrStderr(), text) }
	s, err := ui.New(o)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		cli.Tell(c, c.ErrOrStderr(), fmt.Sprintf("other machines can connect to %v: nothing is encrypted, so whoever can read the network can read the token", l.Addr()))
	}
	p := &page{fmt.Sprintf("http://%s/#%s", shownAddress(l.Addr(), host), s.Token()), s, s.HTTP(), make(chan error, 1)}
	go func() { p.ended <- p.http.Serve(l) }()
	return p, nil
}

// close ends the page.
func (p *page) close() error {
	p.server.Close() // it ends the streams
	bound, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if p.http.Shutdown(bound) != nil {
		_ = p.http.Close()
	}
	if err := <-p.ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// traceJob asks the daemon for the next step of a job.
func traceJob(ctx context.Context, _ string, job int) (*berth.StepTrace, error) {
	if job == 0 {
		return nil, fmt.Errorf("%w: another process trains this run, which can be asked only from its own page (trainer train --ui), or as a job of trainer up", berth.ErrNoStep)
	}
	return queued.TraceStep(ctx, build.Revision(), job)
}

// ownPage is the page of a training. A nil one is none.
type ownPage struct {
	*page
	run      atomic.Pointer[berth.Run] // nil while it is not open
	at, last atomic.Int64              // of its steps: those that have begun, and all
}

var errNotOpen = errors.New("the training is about to begin, or has ended")

// serveOwn serves the page of the training in a run folder, and prints its URL.
func serveOwn(c *cobra.Command, dir, address string) (*ownPage, error) {
	p := &ownPage{}
	id := ui.RunID(dir)
	trace := func(ctx context.Context, of string, job int) (*berth.StepTrace, error) {
		switch run := p.run.Load(); {
		case ui.RunID(of) != id:
			return traceJob(ctx, of, job)
		case run == nil:
			return nil, fmt.Errorf("%w: %w", berth.ErrNoStep, errNotOpen)
		default:
			return run.TraceStep(ctx)
		}
	}
	memory := func(context.Context) (berth.Memory, error) {
		if run := p.run.Load(); run != nil {
			return run.Memory()
		}
		return berth.Memory{}, errNotOpen
	}
	step := func(of string) (at, last int, ok bool) {
		at, last = int(p.at.Load()), int(p.last.Load())
		return at, last, last > 0 && p.run.Load() != nil && ui.RunID(of) == id
	}
	list := queued.NewLister(build.Revision())
	var err error
	p.page, err = servePage(c, address, ui.Options{Folder: parentOf(dir), Jobs: list.List, Memory: memory, Plan: drawApart, Config: list.Config, Trace: trace, Step: step})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s/run/%s\n", p.url, id)
	return p, nil
}

// show has a run asked for steps and its memory; nil: none.
func (p *ownPage) show(run *berth.Run) {
	if p != nil {
		p.run.Store(run)
	}
}

// observe tells the page of each step.
func (p *ownPage) observe(o *berth.Observer) {
	if p == nil {
		return
	}
	started, step := o.Started, o.Step
	o.Started = func(s berth.Start) {
		p.at.Store(int64(s.Step))
		p.last.Store(int64(s.Steps))
		started(s)
	}
	o.Step = func(s berth.Step) {
		p.at.Store(int64(s.Step))
		step(s)
	}
}

// close ends the page. What was wrong with it is told, since the training has not suffered.
func (p *ownPage) close(c *cobra.Command) {
	if p == nil {
		return
	}
	if err := p.page.close(); err != nil {
		cli.Tell(c, c.ErrOrStderr(), fmt.Sprintf("the page of the training: %v", err))
	}
}

// parentOf is the folder that a run folder is in.
func parentOf(dir string) string {
	if clean := filepath.Clean(dir); clean != "." && filepath.IsLocal(clean) {
		return filepath.Dir(clean)
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Dir(dir)
}

// checkAddress refuses what nobody can listen at. host is the name in it; "" if that is an address.
func checkAddress(address string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", cli.Usagef("--address %s: give HOST:PORT, such as 127.0.0.1:8123", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", cli.Usagef("--address %s: %s is no port: give a number from 0 to 65535, such as 127.0.0.1:8123", address, port)
	}
	if net.ParseIP(host) != nil || host == "localhost" {
		return "", nil
	}
	return host, nil
}

// shownAddress is an address as a browser of this machine takes it.
func shownAddress(a net.Addr, host string) string {
	tcp, ok := a.(*net.TCPAddr)
	switch {
	case !ok:
		return a.String()
	case host != "":
		return fmt.Sprintf("%s:%d", host, tcp.Port)
	case tcp.IP.IsUnspecified():
		return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return a.String()
}

const (
	openTime = 5 * time.Second // in which a browser that cannot be opened says so
	mostSaid = 1 << 10         // bytes of what it says
)

// openBrowser opens a URL with a token. Every user of a machine sees the arguments of its programs, so the browser gets a
// file that only this user can read and that leads to the URL. closed removes that.
func openBrowser(ctx context.Context, url string) (closed func(), err error) {
	dir, err := os.MkdirTemp("", "berth-ui-")
	if err != nil {
		return func() {}, err
	}
	closed = func() { _ = os.RemoveAll(dir) }
	path := filepath.Join(dir, "open.html")
	text := fmt.Sprintf("<!doctype html><meta charset=utf-8><title>Berth</title><meta http-equiv=refresh content=\"0; url=%s\"><a href=\"%s\">Open the page</a>\n", url, url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return closed, err
	}
	name, args := "xdg-open", []string{path}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", path}
	}
	said, err := os.Create(filepath.Join(dir, "said")) // no pipe: a browser that stays has its end for as long
	if err != nil {
		return closed, err
	}
	defer said.Close()
	c := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		return closed, fmt.Errorf("%s: %w", name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			text, _ := osfile.Read(said.Name(), mostSaid)
			return closed, fmt.Errorf("%s: %w %s", name, err, text)
		}
	case <-time.After(openTime): // it is the browser, or has become one
	case <-ctx.Done():
	}
	return closed, nil
}
