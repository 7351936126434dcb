package cl

import (
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// inChild is the environment variable of the process in which nothing was opened yet.
const inChild = "BERTH_TEST_SIGNALS"

// The handlers of all signals stay Go's: when drivers are found, when the first kernel is
// compiled, and when it runs. Signals and nil pointers come to Go all the while.
func TestSignals(t *testing.T) {
	if os.Getenv(inChild) == "" {
		c := exec.Command(os.Args[0], "-test.run", "^TestSignals$", "-test.v")
		c.Env = append(os.Environ(), inChild+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	usr := make(chan os.Signal, 1)
	signal.Notify(usr, unix.SIGUSR1)
	before := actions()
	check := func(after string) {
		now := actions()
		for s := range now {
			if now[s] != before[s] {
				t.Errorf("signal %d has another handler after %s", s, after)
			}
		}
		for range 20 {
			if err := unix.Kill(os.Getpid(), unix.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			select {
			case <-usr:
			case <-time.After(10 * time.Second):
				t.Fatalf("no signal came after %s", after)
			}
		}
		if !panics(func() { _ = *(*int)(nil) }) {
			t.Errorf("a nil pointer did not panic after %s", after)
		}
	}
	d, _ := openFaulty(t, device.OpenOptions{Sync: true}, nil)
	check("opening")
	x, err := d.Compile(negate(t), device.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check("compiling")
	s, _ := d.NewStream("s")
	a, _ := s.Alloc(shape.F32(4), device.Activation)
	b, _ := s.Alloc(shape.F32(4), device.Activation)
	e, err := s.Launch(x, []device.Buffer{a}, []device.Buffer{b}, nil)
	if err == nil {
		err = e.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	check("a launch")
	for _, err := range []error{s.Close(), a.Free(), b.Free(), d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	check("closing")
}

// Handlers stay also where a call begins after another one has replaced them.
func TestSignalsOfTwoCalls(t *testing.T) {
	before := actions()
	first := keepSignals()
	ignored := new(action)
	ignored[0] = 1 // SIG_IGN
	sigaction(int(unix.SIGUSR2), ignored, nil)
	second := keepSignals()
	first()
	second()
	if actions() != before {
		t.Error("a handler was not put back")
	}
}

// actions are the handlers of all signals.
func actions() (all [signals + 1]action) {
	get := new(action)
	for s := 1; s <= signals; s++ {
		sigaction(s, nil, get)
		all[s] = *get
	}
	return all
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}
