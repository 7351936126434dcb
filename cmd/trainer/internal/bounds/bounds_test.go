package bounds

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A connection beyond the most is told to come later, and one that is closed makes room.
func TestConnections(t *testing.T) {
	places := make(Places, 2)
	s := HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }), places.Connection)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	ask := func(request string) (conn net.Conn, answer string) {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, request)
		b := make([]byte, 12)
		_, _ = io.ReadFull(conn, b)
		return conn, string(b)
	}
	const get, answered, refused = "GET / HTTP/1.1\r\nHost: x\r\n", "HTTP/1.1 200", "HTTP/1.1 503"
	first, text := ask(get + "\r\n")
	if text != answered {
		t.Fatalf("the first: %q", text)
	}
	if _, text := ask(get + "\r\n"); text != answered {
		t.Errorf("the second: %q", text)
	}
	if _, text := ask(""); text != refused { // what it had sent could make the system drop the answer
		t.Errorf("one more: %q", text)
	}
	first.Close()
	for len(places) == cap(places) { // until the server has seen it
		time.Sleep(time.Millisecond)
	}
	if _, text := ask(get + "X: " + strings.Repeat("x", 16<<10+4<<10-len(get)-3)); text != "HTTP/1.1 431" {
		t.Errorf("a header that is long: %q", text)
	}
	if err := s.Shutdown(t.Context()); err != nil { // it waits for the answers
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
