package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlines counts how often a client gets time.
type deadlines struct {
	*httptest.ResponseRecorder
	n int
}

func (d *deadlines) SetWriteDeadline(time.Time) error {
	d.n++
	return nil
}

// A client has the time for a piece of 64 KiB, however small the writes are, and for each
// event of a stream.
func TestTimeToReadAnAnswer(t *testing.T) {
	for name, c := range map[string]struct{ size, writes, want int }{
		"small writes": {100, 6554, 11}, // 10 pieces and 40 bytes
		"one write":    {10 * pieceBytes, 1, 10},
		"two pieces":   {pieceBytes, 2, 2},
	} {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		a := &answering{ResponseWriter: d, client: time.Second}
		for range c.writes {
			if _, err := a.Write(make([]byte, c.size)); err != nil {
				t.Fatal(err)
			}
		}
		if d.n != c.want {
			t.Errorf("%s: the client got time %d times, want %d", name, d.n, c.want)
		}
	}
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	e := events{w: &answering{ResponseWriter: d, client: time.Second}}
	for range 5 {
		if err := e.send("piece", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if d.n != 5 || d.Code != http.StatusOK {
		t.Errorf("5 events: the client got time %d times", d.n)
	}
}
