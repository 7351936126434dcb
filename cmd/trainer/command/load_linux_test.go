package command

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

// loaded is a server of its own process, under load.
type loaded struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	base int // MiB resident before any request

	mu       sync.Mutex
	statuses map[string]map[int]int // by kind of request
}

// load serves a run that is trained for it, in a control group.
func load(t *testing.T, config, group string, args ...string) *loaded {
	t.Helper()
	dir := t.TempDir()
	text := strings.Repeat("ten green bottles, and nine more; ", 60)
	for name, text := range map[string]string{"c.yaml": config, "text.txt": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	train := exec.CommandContext(t.Context(), "trainer", "train", "c.yaml", "--run", "r", "--max-steps", "1", "--quiet")
	train.Dir = dir
	if out, err := train.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	x := &loaded{t: t, statuses: map[string]map[int]int{}}
	x.cmd = exec.Command("sh", append([]string{"-c", group + `exec trainer serve r --address 127.0.0.1:0 "$@"`, "sh"}, args...)...)
	x.cmd.Dir, x.cmd.Stderr = dir, io.Discard
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no URL was printed: %v", err)
	}
	x.url = strings.TrimSpace(line)
	x.base = x.resident("VmRSS")
	return x
}

// resident is a number of /proc/PID/status, in MiB.
func (x *loaded) resident(name string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.cmd.Process.Pid))
	if err != nil {
		x.t.Fatal(err)
	}
	m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		x.t.Fatalf("no %s: the server has died", name)
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		x.t.Fatal(err)
	}
	return kib >> 10
}

// from is a client of an address.
func from(address string) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}
}

// post counts the status of a request.
func (x *loaded) post(kind string, c *http.Client, path string, body io.Reader) (status int) {
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodPost, x.url+path, body)
	if err != nil {
		x.t.Error(err)
		return 0
	}
	a, err := c.Do(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, a.Body)
		status = a.StatusCode
		if a.Body.Close(); status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "" {
			x.t.Errorf("%s: 503 without Retry-After", kind)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.statuses[kind] == nil {
		x.statuses[kind] = map[int]int{}
	}
	x.statuses[kind][status]++
	return status
}

// meanwhile asks from another address for as long as f takes, and expects an answer each time.
func (x *loaded) meanwhile(path, body string, f func()) {
	ended := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		other := from("127.0.0.2")
		for {
			began := time.Now()
			if status := x.post("other client", other, path, strings.NewReader(body)); status != http.StatusOK {
				x.t.Errorf("another client got the status %d after %v", status, time.Since(began))
			}
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	f()
	close(ended)
	asking.Wait()
}

// hold opens so many connections that each send the beginning of a request, or all of it, and
// read nothing.
func (x *loaded) hold(n int, path, body string, length int) (release func()) {
	var all []net.Conn
	for range n {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(x.url, "http://"))
		if err != nil {
			x.t.Fatal(err)
		}
		all = append(all, conn)
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, length, body) // beyond a bound it is closed
	}
	return func() {
		for _, conn := range all {
			conn.Close()
		}
	}
}

// end ends the server, and compares its greatest memory with a bound in MiB. Data of the
// programs and the threads of many clients take some more.
func (x *loaded) end(bound int) {
	const slack = 48
	most := x.resident("VmHWM")
	x.t.Logf("statuses %v; %d MiB resident at first, %d MiB at most, %d MiB allowed for requests", x.statuses, x.base, most, bound)
	if most > x.base+bound+slack && !testall.Race {
		x.t.Errorf("%d MiB resident, expected at most %d and %d more", most, x.base, bound)
	}
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		x.t.Error(err)
	}
	if err := x.cmd.Wait(); err != nil {
		x.t.Errorf("the server ended with %v", err)
	}
}

const (
	digits = "data: {source: digits}\nmodel: {preset: mlp, hidden: [8]}\n"
	texts  = "data: {source: text, path: text.txt, context: 16}\nmodel: {preset: gpt, layers: 1, heads: 2, width: 16}\ntrain: {batch: 8}\n"
)

// large sends n large bodies at once, each other one without its length.
func (x *loaded) large(n int, path string, body []byte) {
	c := from("127.0.0.1")
	var sending sync.WaitGroup
	for i := range n {
		sending.Go(func() {
			reader := io.Reader(bytes.NewReader(body))
			if i%2 == 1 {
				reader = io.MultiReader(reader)
			}
			switch status := x.post(path, c, path, reader); status {
			case http.StatusOK, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			default:
				x.t.Errorf("%s: status %d", path, status)
			}
		})
	}
	sending.Wait()
}

// Large requests, more than memory has room for, are refused before they are read: the memory
// of the process stays within its bound, and another client is answered meanwhile.
func TestMemoryUnderLoad(t *testing.T) {
	testall.Long(t)
	n := testall.Or(60, 450)
	row := "[" + strings.Repeat("0,", 63) + "0]"
	small := `{"inputs": [` + row + `]}`
	const most = 4190000
	tooMany := `{"inputs": [` + row + strings.Repeat(","+row, most/(len(row)+1)-1) + `]}`
	padded := `{"inputs": [` + row + strings.Repeat(","+row, 1000) + `]`
	padded += strings.Repeat(" ", most-len(padded)) + "}"
	const bound = 128 // MiB
	for _, body := range []string{tooMany, padded} {
		x := load(t, digits, "", "--max-memory", strconv.Itoa(bound)+"MiB")
		x.meanwhile("/predict", small, func() { x.large(n, "/predict", []byte(body)) })
		x.end(bound)
	}
	prompt := `{"slide": true, "tokens": 5, "prompt": "` + strings.Repeat("ten green ", most/10-10) + `"}`
	x := load(t, texts, "", "--max-memory", strconv.Itoa(bound)+"MiB")
	x.meanwhile("/generate", `{"slide": true, "tokens": 5, "prompt": "ten"}`, func() { x.large(n/4, "/generate", []byte(prompt)) })
	x.end(bound)
}

// Without a bound that is asked for, the control group gives it.
func TestMemoryOfControlGroup(t *testing.T) {
	testall.Long(t)
	const memory = 256 // MiB
	join := limits{Memory: memory}.join(t)
	prompt := `{"slide": true, "tokens": 5, "prompt": "` + strings.Repeat("ten green ", 418_000) + `"}`
	x := load(t, texts, join)
	x.large(testall.Or(30, 100), "/generate", []byte(prompt))
	x.end(memory / 2)
}

// One client's slow bodies, and texts that it does not read, keep no other client waiting.
func TestOneClientLeavesRoom(t *testing.T) {
	testall.Long(t)
	x := load(t, digits, "")
	small := `{"inputs": [[` + strings.Repeat("0,", 63) + `0]]}`
	release := x.hold(testall.Or(600, 1100), "/predict", small[:9], len(small))
	x.meanwhile("/predict", small, func() { time.Sleep(time.Duration(testall.Or(1, 12)) * time.Second) })
	release()
	x.end(64)
	x = load(t, texts, "", "--max-tokens", "1000000")
	stream := `{"slide": true, "tokens": 1000000, "stream": true, "prompt": "ten"}`
	release = x.hold(8, "/generate", stream, len(stream))
	x.meanwhile("/generate", `{"slide": true, "tokens": 5, "prompt": "ten"}`, func() { time.Sleep(time.Duration(testall.Or(1, 12)) * time.Second) })
	release()
	x.end(64)
}
