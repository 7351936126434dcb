package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/serve"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/testall"
)

// dial connects to a server from a loopback address, and sends the head of a request and
// some of its body, of which it says the length.
func (c *client) dial(t testing.TB, from, path, body string, length int) *net.TCPConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Skipf("no connection from %s: %v", from, err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, length, body); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// status reads an answer, and passes over interim ones.
func status(t testing.TB, conn net.Conn) (code int, header http.Header) {
	t.Helper()
	r := bufio.NewReader(conn)
	for {
		a, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if a.StatusCode != http.StatusContinue {
			a.Body.Close()
			return a.StatusCode, a.Header
		}
	}
}

// A client that closes its side after the whole request gets its answer, also one that takes
// long.
func TestClientThatClosesItsSide(t *testing.T) {
	slow := []fault.Fault{{Device: "cpu:0", Op: fault.Launch, N: 3, Kind: fault.Slow}}
	_, c := open(t, table(t), serve.OpenOptions{Faults: slow})
	for i := range 3 {
		const body = `{"inputs": [[120, 7]]}`
		conn := c.dial(t, "127.0.0.1", "/predict", body, len(body))
		began := time.Now()
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if code, _ := status(t, conn); code != http.StatusOK {
			t.Errorf("request %d: %d after %v", i, code, time.Since(began))
		}
	}
}

// A client that leaves while its text is generated loses its turn soon.
func TestClientThatLeaves(t *testing.T) {
	_, c := open(t, book(t), serve.OpenOptions{Limits: serve.Limits{Tokens: 1 << 20}})
	const body = `{"prompt": "ten", "tokens": 1000000, "slide": true}`
	conn := c.dial(t, "127.0.0.1", "/generate", body, len(body))
	c.until(t, "texts_under_way 1")
	conn.Close()
	began := time.Now()
	c.until(t, "texts_under_way 0", `errors_total{kind="gone"} 1`)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the text ended %v later", took)
	}
}

// A stream that nobody reads ends, and its text makes room for others.
func TestStreamThatNobodyReads(t *testing.T) {
	_, c := open(t, book(t), serve.OpenOptions{Service: berth.ServeOptions{Texts: 1}, Limits: serve.Limits{Tokens: 1 << 20, Client: 300 * time.Millisecond, Time: time.Minute}})
	const body = `{"prompt": "ten", "tokens": 1000000, "slide": true, "stream": true}`
	conn := c.dial(t, "127.0.0.1", "/generate", body, len(body))
	if err := conn.SetReadBuffer(4 << 10); err != nil { // else the system keeps some megabytes for the client
		t.Fatal(err)
	}
	c.until(t, "texts_under_way 1")
	began := time.Now()
	c.until(t, "texts_under_way 0", `errors_total{kind="gone"} 1`)
	t.Logf("it ended after %v", time.Since(began))
}

// A body must come with a pace: each piece of it, or the rest, within the client's time. A
// slow client that keeps the pace may take longer.
func TestPaceOfBodies(t *testing.T) {
	const pause = time.Second
	_, c := open(t, table(t), serve.OpenOptions{Limits: serve.Limits{Client: pause}})
	body := `{"inputs": [[120, 7]]` + strings.Repeat(" ", 5*(64<<10)) + "}"
	conn := c.dial(t, "127.0.0.1", "/predict", body[:21], len(body))
	for rest := body[21:]; len(rest) > 0; rest = rest[min(len(rest), 64<<10):] {
		time.Sleep(pause / 4) // six times
		if _, err := io.WriteString(conn, rest[:min(len(rest), 64<<10)]); err != nil {
			t.Fatal(err)
		}
	}
	if code, _ := status(t, conn); code != http.StatusOK {
		t.Errorf("with a pace: %d", code)
	}
	trickle := c.dial(t, "127.0.0.1", "/predict", body[:21], len(body))
	go func() {
		for i := 21; ; i++ {
			if _, err := io.WriteString(trickle, body[i:i+1]); err != nil {
				return
			}
			time.Sleep(pause / 20)
		}
	}()
	began := time.Now()
	if code, _ := status(t, trickle); code != http.StatusRequestTimeout || time.Since(began) > 20*pause {
		t.Errorf("byte by byte: %d after %v", code, time.Since(began))
	}
}

// A refused client can finish sending before it looks for the answer.
func TestRefusedWhileSending(t *testing.T) {
	_, c := open(t, table(t), serve.OpenOptions{Limits: serve.Limits{Memory: 3 << 20}})
	body := `{"inputs": [[120, 7]]` + strings.Repeat(" ", 4_000_000) + "}"
	for range 5 {
		conn := c.dial(t, "127.0.0.1", "/predict", body, len(body))
		if code, _ := status(t, conn); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%d", code)
		}
	}
}

// A failure that comes again and again is repaired with longer and longer pauses.
func TestRepeatedFailure(t *testing.T) {
	testall.Long(t)
	var faults []fault.Fault
	for n := range 200 {
		faults = append(faults, fault.Fault{Device: "cpu:0", Op: fault.Launch, N: 1 + n, Kind: fault.Lost})
	}
	_, c := open(t, table(t), serve.OpenOptions{Faults: faults, Log: func(string) {}})
	began, longest, repairs := time.Now(), 0, 0
	for repairs < 4 && time.Since(began) < time.Minute {
		_, _, header := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7]]}`)
		n, _ := strconv.Atoi(header.Get("Retry-After"))
		longest = max(longest, n)
		_, text, _ := c.do(t.Context(), http.MethodGet, "/metrics", "")
		found := regexp.MustCompile(`berth_serve_repairs_total (\d+)`).FindStringSubmatch(text)
		repairs, _ = strconv.Atoi(found[1])
	}
	// After 0, 0.1, 0.3 and 0.7 s, or later on a busy machine.
	if took := time.Since(began); repairs != 4 || took < 700*time.Millisecond || longest < 1 {
		t.Errorf("%d repairs in %v; to be tried again after %d s", repairs, took, longest)
	}
}

// A client that does not read its large answer keeps no model from being replaced.
func TestReloadBesideAnAnswerThatNobodyReads(t *testing.T) {
	testall.Long(t)
	if testall.Race {
		t.Skip("400,000 samples take longer than a request may under the race detector")
	}
	x := table(t)
	_, c := open(t, x, serve.OpenOptions{Follow: -1, Limits: serve.Limits{Samples: 1 << 20, Body: 8 << 20, Memory: 4 << 30}})
	body := `{"inputs": [` + strings.Repeat("[120,7],", 400_000) + `[120,7]]}` // the answer takes over 10 MB, more than the system keeps
	conn := c.dial(t, "127.0.0.1", "/predict", body, len(body))
	if err := conn.SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, first); err != nil || string(first) != "HTTP/1.1 200" {
		t.Fatalf("%q, %v", first, err)
	}
	x.goOn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // half of a client's time to read
	defer cancel()
	if code, text, _ := c.do(ctx, http.MethodPost, "/reload", ""); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}

// Connections beyond a client's share are closed, and another client is answered.
func TestTooManyConnections(t *testing.T) {
	_, c := open(t, table(t), serve.OpenOptions{Limits: serve.Limits{Requests: 2}}) // 34 connections of one client
	refused, all := 0, make([]*net.TCPConn, 40)
	for i := range all {
		all[i] = c.dial(t, "127.0.0.1", "/predict", "", 1)
	}
	for _, conn := range all[34:] { // of some, the system drops the answer
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(conn); strings.HasPrefix(string(b), "HTTP/1.1 503 ") && strings.Contains(string(b), "\r\nRetry-After: 1\r\n") && len(b) < 120 {
			refused++
		}
	}
	if refused < 1 {
		t.Error("no connection was refused")
	}
	conn := c.dial(t, "127.0.0.2", "/predict", `{"inputs": [[120, 7]]}`, 22)
	if code, _ := status(t, conn); code != http.StatusOK {
		t.Errorf("another client: %d", code)
	}
}
