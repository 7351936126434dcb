package serve_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berth-ml/berth/cmd/trainer/serve"
)

// Requests to names that are not the server's, and those of other sites' pages, are refused on
// every path.
func TestHostsAndOrigins(t *testing.T) {
	_, c := open(t, table(t), serve.OpenOptions{Hosts: []string{"Model.Example.", "proxied.example:8443"}})
	own := strings.TrimPrefix(c.url, "http://")
	_, port, _ := strings.Cut(own, ":")
	for _, x := range []struct {
		host, origin string
		status       int
	}{
		{own, "", 200}, {"localhost:" + port, "", 200}, {"LOCALHOST.", "", 200}, {"127.8.9.1", "", 200}, {"[::1]:80", "", 200}, {"[::]", "", 200},
		{"model.example", "", 200}, {"MODEL.example:80", "", 200},
		{"evil.example", "", 403}, {"evil.example:" + port, "", 403}, {"10.1.2.3", "", 403}, {"[fe80::1]", "", 403}, {"localhost.evil.example", "", 403}, {"model.example.evil", "", 403},
		{own, "http://" + own, 200}, {own, "http://evil.example", 403}, {own, "null", 403}, {own, "http://127.0.0.1:1", 403}, {own, "http://localhost", 403}, {own, "%", 403},
		{own, "https://model.example", 200}, {own, "https://proxied.example:8443", 200}, {own, "https://model.example:1", 403}, {"evil.example", "http://evil.example", 403},
	} {
		for _, path := range []string{"POST /predict", "GET /healthz", "GET /metrics", "GET /", "POST /reload"} {
			method, path, _ := strings.Cut(path, " ")
			r, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(`{"inputs": [[120, 7]]}`))
			if err != nil {
				t.Fatal(err)
			}
			if r.Host = x.host; x.origin != "" {
				r.Header.Set("Origin", x.origin)
			}
			if method == http.MethodGet {
				r.Body, r.ContentLength = nil, 0
			}
			a, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if a.Body.Close(); a.StatusCode != x.status {
				t.Errorf("%s %s for %q of %q: %d, want %d", method, path, x.host, x.origin, a.StatusCode, x.status)
			}
		}
	}
}

// Another machine, or a proxy, needs the token to ask for a reload; a program of this one does
// not. An address that is not a loopback one is known where a client has connected to it.
func TestWhoMayReload(t *testing.T) {
	const token = "a token of some letters"
	with, _ := open(t, table(t), serve.OpenOptions{ReloadToken: token})
	without, _ := open(t, table(t), serve.OpenOptions{})
	for _, x := range []struct {
		s                         *serve.Server
		peer, authorization, from string
		status                    int
	}{
		{with, "127.0.0.1:1", "", "", 200}, {with, "[::ffff:127.0.0.1]:1", "", "", 200}, {with, "192.0.2.1:1", "", "", 403}, {with, "192.0.2.1:1", "Bearer " + token, "", 200},
		{with, "192.0.2.1:1", "Bearer another", "", 403}, {with, "192.0.2.1:1", "Bearer ", "", 403}, {with, "127.0.0.1:1", "Bearer another", "", 403},
		{with, "127.0.0.1:1", "", "192.0.2.1", 403}, {with, "127.0.0.1:1", "Bearer " + token, "192.0.2.1", 200}, {with, "@", "", "", 403},
		{without, "127.0.0.1:1", "", "", 200}, {without, "192.0.2.1:1", "", "", 403}, {without, "192.0.2.1:1", "Bearer ", "", 403},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/reload", nil)
		r.RemoteAddr = x.peer
		if x.authorization != "" {
			r.Header.Set("Authorization", x.authorization)
		}
		if x.from != "" {
			r.Header.Set("X-Forwarded-For", x.from)
		}
		w := httptest.NewRecorder()
		if x.s.ServeHTTP(w, r); w.Code != x.status {
			t.Errorf("%s with %q, forwarded from %q: %d, want %d", x.peer, x.authorization, x.from, w.Code, x.status)
		}
	}
}

// Names of the data are printed without the characters that control terminals.
func TestDescriptionOfOddNames(t *testing.T) {
	rows := "he\x1b[31might,width,kind\n" + strings.Repeat("100,3,c\u009bat\n120,7,é\n", 8)
	_, c := open(t, trained(t, rows, "data: {source: csv, path: FILE, label: kind}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 1, batch: 8}\n"), serve.OpenOptions{})
	code, text, _ := c.do(t.Context(), http.MethodGet, "/", "")
	if code != http.StatusOK || strings.ContainsAny(text, "\x1b\u009b") || !strings.Contains(text, `he\x1b[31might`) || !strings.Contains(text, `c\u009bat`) || !strings.Contains(text, "é") {
		t.Errorf("%d %q", code, text)
	}
}
