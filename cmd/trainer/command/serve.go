package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/cmd/trainer/serve"
	"github.com/berth-ml/berth/internal/units"
)

func serveCommand(stop *signals.Stop) *cobra.Command {
	c := &cobra.Command{
		Use:   "serve RUN | --adapter NAME=RUN …",
		Short: "Answer over HTTP with a trained model",
		Long: "Answer requests over HTTP with a trained model, whose weights stay on the devices: POST /predict answers samples, POST /generate continues a text. GET / describes both for the model. docs/serving.md has all requests, limits and metrics.\n" +
			"\n" +
			"The run may train meanwhile: a better checkpoint (with --last a newer one) takes over, and no request is dropped. --checkpoint and --init keep the weights.\n" +
			"\n" +
			"With several devices (--devices cpu:2), each has a copy of the weights, and all answer at the same time. After the loss of one the others go on.\n" +
			"\n" +
			"--adapter NAME=RUN, once for each of several runs that train an adapter (adapt.lora) beside the same base, serves them all: the base's weights are on the devices once. A request names its adapter, and without a name the base answers.\n" +
			"\n" +
			"The server listens on this machine alone unless --address says otherwise, and asks nobody for a password. Ctrl-C or SIGTERM ends it once the requests under way are answered.",
		Example: "  trainer serve runs/churn\n  trainer serve runs/shakespeare --last --address 127.0.0.1:9000 --texts 8\n  trainer serve --adapter polite=runs/polite --adapter short=runs/short\n" +
			"  curl -d '{\"inputs\": [{\"age\": 41, \"plan\": \"gold\"}]}' localhost:8080/predict",
	}
	flags := addTrained(c)
	f := addServeFlags(c)
	c.Args = f.args
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(c); err != nil {
			return err
		}
		return f.run(c, flags, stop, strings.Join(args, ""))
	}
	return c
}

// args asks for a run, or for adapters.
func (f *serveFlags) args(c *cobra.Command, args []string) error {
	switch {
	case len(f.adapters) == 0:
		return cli.Args(1)(c, args)
	case len(args) > 0:
		return cli.Usagef("--adapter names the runs to serve, and %s is another: give it as --adapter NAME=%s, or leave --adapter out", args[0], args[0])
	}
	return nil
}

// serveFlags are the flags of a server.
type serveFlags struct {
	address  string
	hosts    []string
	adapters []string // NAME=RUN
	token    string   // path of the file
	drain    time.Duration
	follow   time.Duration
	service  berth.ServeOptions
	limits   serve.Limits
}

// addServeFlags gives c those flags.
func addServeFlags(c *cobra.Command) *serveFlags {
	f := &serveFlags{}
	c.Flags().StringVar(&f.address, "address", "127.0.0.1:8080", "listen at `HOST:PORT`; port 0 takes a free one")
	c.Flags().StringArrayVar(&f.adapters, "adapter", nil, "answer with the adapter of a run by a name, `NAME=RUN`, in place of RUN; can be repeated")
	c.Flags().IntVar(&f.service.Batch, "batch", 32, "compute at most `N` samples at once")
	c.Flags().IntVar(&f.service.Queue, "queue", 1024, "let at most `N` samples wait, and as many texts")
	c.Flags().IntVar(&f.service.Texts, "texts", 4, "generate at most `N` texts at once with each copy of the weights")
	c.Flags().DurationVar(&f.follow, "follow", 2*time.Second, "look for a better or newer checkpoint every `TIME`; 0: at POST /reload alone")
	c.Flags().DurationVar(&f.drain, "drain", 30*time.Second, "the longest `TIME` that requests get when the server ends")
	c.Flags().DurationVar(&f.limits.Time, "deadline", 30*time.Second, "the longest `TIME` that a request may take")
	c.Flags().Var((*cli.Size)(&f.limits.Body), "max-body", "refuse requests of more than `SIZE`, such as 16MiB (default 4MiB)")
	c.Flags().IntVar(&f.limits.Samples, "max-samples", 1024, "refuse requests of more than `N` samples")
	c.Flags().IntVar(&f.limits.Tokens, "max-tokens", 4096, "refuse texts of more than `N` tokens")
	c.Flags().Var((*cli.Size)(&f.limits.Memory), "max-memory", "let all requests together take at most `SIZE` of memory (default: half of what is left beside the weights)")
	c.Flags().IntVar(&f.limits.Requests, "max-requests", 1024, "handle at most `N` requests at once")
	c.Flags().IntVar(&f.limits.Share, "client-share", 50, "let one client address take `PERCENT` of each limit; 100 behind a proxy")
	c.Flags().StringArrayVar(&f.hosts, "allow-host", nil, "answer requests for the host `NAME`, too; can be repeated")
	c.Flags().StringVar(&f.token, "reload-token", "", "let other machines ask for POST /reload with the token in `FILE`")
	cli.Rare(c, "allow-host", "client-share", "drain", "max-body", "max-requests", "max-samples", "max-tokens", "reload-token", "device-memory")
	return f
}

// check refuses values that no server can have.
func (f *serveFlags) check(c *cobra.Command) error {
	for name, v := range map[string]int64{
		"batch": int64(f.service.Batch), "queue": int64(f.service.Queue), "texts": int64(f.service.Texts), "deadline": int64(f.limits.Time),
		"max-samples": int64(f.limits.Samples), "max-tokens": int64(f.limits.Tokens), "max-requests": int64(f.limits.Requests), "drain": int64(f.drain), "client-share": int64(f.limits.Share),
	} {
		if v < 1 {
			return cli.Usagef("--%s %s: give a value above 0", name, c.Flags().Lookup(name).Value)
		}
	}
	if f.limits.Share > 100 {
		return cli.Usagef("--client-share %d: give a number from 1 to 100", f.limits.Share)
	}
	if f.follow < 0 {
		return cli.Usagef("--follow %v: give the time between looks for another checkpoint, such as 10s, or 0 to keep the first one", f.follow)
	}
	if f.follow == 0 {
		f.follow = -1
	}
	_, port, err := net.SplitHostPort(f.address)
	if err != nil {
		return cli.Usagef("--address %s: give HOST:PORT, such as 127.0.0.1:8080", f.address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return cli.Usagef("--address %s: %s is no port: give a number from 0 to 65535, such as 127.0.0.1:8080", f.address, port)
	}
	return nil
}

// run serves the run in a folder until the command is to end.
func (f *serveFlags) run(c *cobra.Command, flags *trainedFlags, stop *signals.Stop, dir string) (err error) {
	ctx := c.Context()
	o, err := f.options(c, flags, dir)
	if err != nil {
		return err
	}
	stop.Log(o.Log)
	l, err := (&net.ListenConfig{}).Listen(context.WithoutCancel(ctx), "tcp", f.address)
	if err != nil {
		return fmt.Errorf("--address %s: %w; another port may be free (port 0 takes one)", f.address, err)
	}
	s, err := f.open(c, flags.weights, o)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) { // nothing is lost, as later
		o.Log("ended before the model was loaded")
		return l.Close()
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, closeServer(s)) }()
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		o.Log(fmt.Sprintf("other machines can connect to %v: nobody is asked for a password, and nothing is encrypted", l.Addr()))
	}
	fmt.Fprintf(c.OutOrStdout(), "http://%v\n", l.Addr())
	return f.listen(ctx, s, l)
}

// closeTime is the time that the devices have to end what they do for requests that
// nobody waits for any more.
const closeTime = 5 * time.Second

// closeServer closes a server, unless a device hangs.
func closeServer(s *serve.Server) error {
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTime):
		return fmt.Errorf("a device did not end its work within %v: exiting without waiting for it", closeTime)
	}
}

// listen answers until ctx ends, and then those requests that are under way.
func (f *serveFlags) listen(ctx context.Context, s *serve.Server, l net.Listener) error {
	h := s.HTTP("")
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.Drain()
	bound, cancel := context.WithTimeout(context.Background(), f.drain)
	defer cancel()
	if h.Shutdown(bound) != nil { // requests were not answered in time
		_ = h.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// options read the config of the run in a folder, and what the flags say.
func (f *serveFlags) options(c *cobra.Command, flags *trainedFlags, dir string) (o serve.OpenOptions, err error) {
	var lines sync.Mutex
	o = serve.OpenOptions{Service: f.service, Limits: f.limits, Follow: f.follow, Log: func(text string) {
		lines.Lock()
		defer lines.Unlock()
		cli.Log(c, c.ErrOrStderr(), text)
	}}
	if o.Faults, err = flags.faults.parse(); err != nil {
		return o, err
	}
	if o.ReloadToken, err = f.readToken(); err != nil {
		return o, err
	}
	host, _, err := net.SplitHostPort(f.address)
	if err != nil {
		return o, err
	}
	o.Hosts, o.Stored = f.hosts, flags.weights.Stored()
	if net.ParseIP(host) == nil && host != "" && host != "localhost" { // those are known
		o.Hosts = append(o.Hosts, host)
	}
	if f.adapters != nil {
		o.Adapters, err = f.runs(c, flags)
		return o, err
	}
	if o.Weights, err = flags.weights.Weights(dir); err != nil {
		return o, err
	}
	o.Config, err = flags.config.LoadTrained(c, dir)
	return o, err
}

// runs are the adapters to serve. The flags that choose weights and change the config hold for each.
func (f *serveFlags) runs(c *cobra.Command, flags *trainedFlags) (list []berth.Adapter, err error) {
	for _, name := range []string{"checkpoint", "init"} {
		if c.Flags().Changed(name) {
			return nil, cli.Usagef("--%s and --adapter exclude each other: adapters have the best checkpoints of their runs, or with --last the newest", name)
		}
	}
	for _, text := range f.adapters {
		a := berth.Adapter{}
		name, dir, found := strings.Cut(text, "=")
		if !found || name == "" || dir == "" {
			return nil, cli.Usagef("--adapter %s: give a name and a run folder, such as --adapter polite=runs/polite", text)
		}
		a.Name = name
		if a.Weights, err = flags.weights.Weights(dir); err != nil {
			return nil, err
		}
		if a.Config, err = flags.config.LoadTrained(c, dir); err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// leastToken is the least length of a token, in bytes.
const leastToken = 16

// readToken reads the token of --reload-token.
func (f *serveFlags) readToken() (string, error) {
	if f.token == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.token)
	if err != nil {
		return "", cli.Usage(fmt.Errorf("--reload-token: %w", err))
	}
	token := strings.TrimSpace(string(text))
	if len(token) < leastToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", cli.Usagef("--reload-token %s: the file has no token: write one of at least %d letters, digits and signs into it, such as: openssl rand -hex 32", f.token, leastToken)
	}
	return token, nil
}

// open opens the devices and loads the weights.
func (f *serveFlags) open(c *cobra.Command, weights *runs.WeightFlags, o serve.OpenOptions) (*serve.Server, error) {
	done := phase.Wait(c.Context(), c.ErrOrStderr(), "loading")
	s, err := serve.Open(c.Context(), o)
	done()
	if err != nil {
		return nil, byFault(err)
	}
	for _, text := range s.Notes() {
		o.Log(text)
	}
	o.Log(weights.UsedText(s.Used()))
	if text := s.DevicesText(); text != "" {
		o.Log(text)
	}
	if parts := s.Parts(); len(parts) > 1 {
		for _, p := range parts[1:] {
			o.Log(fmt.Sprintf("adapter %s: %s", p.Adapter, weights.UsedText(p.Used)))
		}
		o.Log(fmt.Sprintf("%s %s were copied there", serve.PartsText(parts), units.Bytes(s.Stats().WeightBytes)))
	}
	return s, nil
}
