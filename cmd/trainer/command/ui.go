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
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/cmd/trainer/ui"
	"github.com/berth-ml/berth/internal/build"
)

func uiCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ui [DIR]",
		Short: "Show runs and jobs live in a browser, on a page that only reads",
		Long: "Serve a page with the runs in DIR (default: runs) and the jobs of the queue: a live table, the curves, config and checkpoints of a run, and runs compared. It changes, starts and stops nothing, and needs no network. The URL has a token, without which nobody gets anything. docs/page.md has more.\n" +
			"Ctrl-C ends it.",
		Example: "  trainer ui --open\n  trainer ui experiments --address 127.0.0.1:9000",
		Args:    cli.ArgsBetween(0, 1),
	}
	address := c.Flags().String("address", "127.0.0.1:8123", "listen at `HOST:PORT`; port 0 takes a free one")
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
	host, err := checkAddress(address)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--address %s: %w; another port may be free (port 0 takes one)", address, err)
	}
	lister := queued.NewLister(build.Revision())
	s, err := ui.New(ui.Options{Folder: dir, Host: host, Jobs: lister.List, Config: lister.Config, Plan: drawApart, Log: func(text string) { cli.Tell(c, c.ErrOrStderr(), text) }})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer s.Close()
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		cli.Tell(c, c.ErrOrStderr(), fmt.Sprintf("other machines can connect to %v: nothing is encrypted, so whoever can read the network can read the token", l.Addr()))
	}
	url := fmt.Sprintf("http://%s/#%s", shownAddress(l.Addr(), host), s.Token())
	fmt.Fprintln(c.OutOrStdout(), url)
	if open {
		closed, err := openBrowser(ctx, url)
		if err != nil {
			cli.Tell(c, c.ErrOrStderr(), fmt.Sprintf("no browser was opened (%v): open the URL above", err))
		}
		defer closed()
	}
	h := s.HTTP()
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.Close() // it ends the streams
	bound, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if h.Shutdown(bound) != nil {
		_ = h.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
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
	started, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(started, name, args...).CombinedOutput(); err != nil {
		return closed, fmt.Errorf("%s: %w %s", name, err, out)
	}
	return closed, nil
}
