package ui

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Each of these requests is refused, whatever it asks for; the page's own are answered.
func TestRefused(t *testing.T) {
	c := serve(t, Options{Folder: t.TempDir(), Host: "Workshop.example"})
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				if r.Header.Set(pairs[i], pairs[i+1]); pairs[i] == "Host" {
					r.Host = pairs[i+1]
				}
			}
		}
	}
	for name, x := range map[string]struct {
		path   string
		change func(*http.Request)
		want   int
	}{
		"the page's":                     {"/api/table", header("Sec-Fetch-Site", "same-origin"), 200},
		"without a browser's headers":    {"/api/table", header(), 200},
		"the same origin":                {"/api/table", header("Origin", c.url), 200},
		"localhost":                      {"/api/table", header("Host", "localhost:1234"), 200},
		"IPv6":                           {"/api/table", header("Host", "[::1]:8123"), 200},
		"the name of --address":          {"/api/table", header("Host", "workshop.EXAMPLE.:80"), 200},
		"the shell, typed":               {"/", header("Authorization", "", "Sec-Fetch-Site", "none"), 200},
		"a link on another site":         {"/", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), 200},
		"no token":                       {"/api/table", header("Authorization", ""), 401},
		"another token":                  {"/api/table", header("Authorization", "Bearer x"), 401},
		"a longer token":                 {"/api/table", header("Authorization", "Bearer "+c.s.Token()+"x"), 401},
		"no scheme":                      {"/api/table", header("Authorization", c.s.Token()), 401},
		"a cookie":                       {"/api/table", header("Authorization", "", "Cookie", "token="+c.s.Token()), 401},
		"a token in the URL":             {"/api/table?token=" + c.s.Token(), header("Authorization", ""), 401},
		"a stream without a token":       {"/api/events?since=0", header("Authorization", ""), 401},
		"a name that leads here":         {"/api/table", header("Host", "evil.example"), 403},
		"such a name, and the shell":     {"/", header("Host", "evil.example:8123"), 403},
		"a name that begins like ours":   {"/api/table", header("Host", "localhost.evil.example"), 403},
		"a page of another site":         {"/api/table", header("Sec-Fetch-Site", "cross-site"), 403},
		"a page of a sister site":        {"/api/table", header("Sec-Fetch-Site", "same-site"), 403},
		"a frame":                        {"/", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"), 403},
		"a script of another site":       {"/app.js", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"), 403},
		"data, by a link":                {"/api/table", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), 403},
		"another origin":                 {"/api/table", header("Origin", "http://evil.example"), 403},
		"another port":                   {"/api/table", header("Origin", "http://127.0.0.1:1"), 403},
		"another scheme":                 {"/api/table", header("Origin", strings.Replace(c.url, "http", "https", 1)), 403},
		"no origin's":                    {"/api/table", header("Origin", "null"), 403},
		"a path above":                   {"/../../etc/passwd", header(), 404},
		"an escaped path above":          {"/%2e%2e/%2e%2e/etc/passwd", header(), 404},
		"a file of the page from above":  {"/uplot/../app.js", header(), 404},
		"a folder of the page":           {"/uplot/", header(), 404},
		"what is no part of the page":    {"/uplot/README.md", header(), 404},
		"a step of a path":               {"/api/step?run=" + url.QueryEscape("../../etc"), header(), 404},
		"a step without a token":         {"/api/step?run=x", header("Authorization", ""), 401},
		"a path in place of a run":       {"/api/run?run=" + url.QueryEscape("../../etc"), header(), 404},
		"another path":                   {"/api/metrics", header(), 404},
		"events since nothing":           {"/api/events", header(), 400},
		"columns without end":            {"/api/curves?run=x&x=step&columns=99999999", header(), 400},
		"an axis that there is not":      {"/api/curves?run=x&x=y&columns=9", header(), 400},
		"a span that is no number":       {"/api/curves?run=x&x=step&columns=9&from=NaN&to=2", header(), 400},
		"one run compared":               {"/api/compare?run=x", header(), 400},
		"many runs compared":             {"/api/compare?" + strings.Repeat("run=x&", 17), header(), 400},
		"POST":                           {"/api/table", func(r *http.Request) { r.Method = http.MethodPost }, 405},
		"DELETE":                         {"/api/run?run=x", func(r *http.Request) { r.Method = http.MethodDelete }, 405},
		"OPTIONS, as browsers ask first": {"/api/table", func(r *http.Request) { r.Method = http.MethodOptions }, 405},
		"HEAD":                           {"/", func(r *http.Request) { r.Method = http.MethodHead }, 405},
		"a body":                         {"/api/table", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1 }, 413},
		"a header without end":           {"/api/table", header("X", strings.Repeat("x", 64<<10)), 431},
	} {
		r := c.request(t, x.path)
		x.change(r)
		var status int
		var body string
		var h http.Header
		if x.want == http.StatusRequestHeaderFieldsTooLarge {
			status = c.long(t, r)
		} else {
			status, body, h = c.do(t, r)
		}
		if status != x.want {
			t.Errorf("%s: %d, want %d: %.200s", name, status, x.want, body)
		}
		if status != 200 && (strings.Contains(body, c.s.Token()) || strings.Contains(body, "root:")) {
			t.Errorf("%s: the answer tells %s", name, body)
		}
		if x.want != 431 && (!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Access-Control-Allow-Origin") != "" || h.Get("Set-Cookie") != "") {
			t.Errorf("%s: headers %v", name, h)
		}
	}
}

// A long answer is packed for those who take that, and is the same.
func TestPacked(t *testing.T) {
	c := serve(t, Options{Folder: copied(t, "a", "b", "c", "d")})
	_, plain, _ := c.do(t, c.request(t, "/api/table")) // the client asks for gzip, and unpacks
	for accept, packed := range map[string]bool{"gzip": true, "br, GZIP;q=0.5": true, "": false, "br": false, "gzip;q=0": false, "identity": false} {
		r := c.request(t, "/api/table")
		r.Header.Set("Accept-Encoding", accept)
		_, body, h := c.do(t, r)
		if got := h.Get("Content-Encoding") == "gzip"; got != packed || got != (len(body) < len(plain)/2) || !got && len(body) != len(plain) {
			t.Errorf("%q: packed: %v, %d bytes of %d", accept, got, len(body), len(plain))
		}
	}
}

// Two servers have two tokens, of 128 bits.
func TestToken(t *testing.T) {
	a, b := serve(t, Options{}), serve(t, Options{})
	if a.s.Token() == b.s.Token() || len(a.s.Token()) != 22 {
		t.Errorf("tokens %s and %s", a.s.Token(), b.s.Token())
	}
}

// A thousand requests at once are bounded: each is answered or told to come later, and the server answers afterwards.
func TestThousandAtOnce(t *testing.T) {
	hold := make(chan struct{})
	c := serve(t, Options{Folder: t.TempDir()})
	c.s.handlers["/api/hold"] = func(context.Context, *http.Request) (any, error) {
		select { // the time of a request does not end it: a busy machine takes longer for the others
		case <-hold:
		case <-c.s.life.Done():
		}
		return "held", nil
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	note := func(what string) { mu.Lock(); got[what]++; mu.Unlock() }
	many := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 1000 {
		r := c.request(t, "/api/hold")
		wait.Go(func() {
			a, err := many.Do(r)
			if err != nil {
				note("closed")
				return
			}
			io.Copy(io.Discard, a.Body)
			a.Body.Close()
			note(fmt.Sprint(a.StatusCode))
		})
	}
	until(t, func() bool { mu.Lock(); defer mu.Unlock(); return got["503"]+got["closed"] == 1000-mostRequests })
	close(hold)
	wait.Wait()
	if got["200"] != mostRequests || got["200"]+got["503"]+got["closed"] != 1000 {
		t.Errorf("answers %v", got)
	}
	c.table(t)
}

// Streams are bounded, and a place is free again when one is closed.
func TestMostStreams(t *testing.T) {
	c := serve(t, Options{Folder: t.TempDir()})
	v := c.table(t)
	query := fmt.Sprintf("instance=%s&since=%d", v.Instance, v.Version)
	var open []*streamOf
	for range mostStreams {
		open = append(open, c.stream(t, query))
	}
	if status, body, _ := c.do(t, c.request(t, "/api/events?"+query)); status != 503 {
		t.Errorf("one stream more: %d %s", status, body)
	}
	open[0].cut()
	until(t, func() bool { return len(c.s.streams) < mostStreams })
	if name := c.stream(t, query).next(nil); name != "rows" {
		t.Errorf("a stream begins with %s", name)
	}
}

// A client that sends nothing, or reads nothing, is closed, and holds up nobody.
func TestSlowClients(t *testing.T) {
	c := serve(t, Options{Folder: t.TempDir()})
	address := strings.TrimPrefix(c.url, "http://")
	var idle []net.Conn
	for range mostConnections + 50 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		idle = append(idle, conn)
	}
	last := idle[len(idle)-1]
	_ = last.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, last); os.IsTimeout(err) {
		t.Errorf("a connection beyond the most is open: %v", err)
	}
	for _, conn := range idle {
		conn.Close()
	}
	until(t, func() bool {
		a, err := c.c.Do(c.request(t, "/api/table"))
		if err == nil {
			a.Body.Close()
		}
		return err == nil
	})
}

// Neither a link to a run folder nor one in a run folder is followed.
func TestLinks(t *testing.T) {
	folder, outside := copied(t, "good", "inside"), copied(t, "secret")
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(folder, "link")); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"metrics.jsonl", "config.yaml", "report.json"} {
		path := filepath.Join(folder, "inside", name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(outside, "secret", name), path); err != nil {
			t.Fatal(err)
		}
	}
	c := serve(t, Options{Folder: folder})
	rows := c.table(t).Rows
	if len(rows) != 2 {
		t.Errorf("%d rows of two run folders and a link to one", len(rows))
	}
	for _, r := range rows {
		linked := filepath.Base(r.Run.Run) == "inside"
		if linked != (r.Run.State == "unreadable") || linked && (r.Run.Step != 0 || !strings.Contains(r.Run.Error, "link")) {
			t.Errorf("%+v", r.Run)
		}
	}
	inside := c.id(t, "inside")
	_, body, _ := c.do(t, c.request(t, "/api/run?run="+inside))
	if strings.Contains(body, "val_loss") || !strings.Contains(body, "is not read") {
		t.Errorf("the page of a run with links: %s", body)
	}
	if _, body, _ := c.do(t, c.request(t, "/api/curves?panel=loss&x=step&columns=100&run="+inside)); strings.Contains(body, "val_loss") {
		t.Errorf("its curves: %s", body)
	}
}

// until waits for a condition.
func until(t testing.TB, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("it never is so")
		}
	}
}
