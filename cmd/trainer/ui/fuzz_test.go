package ui

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
)

// FuzzRequests asks for a run whose files anybody may have written, with any query. Each request is answered, and none by a mistake
// of the server.
func FuzzRequests(f *testing.F) {
	f.Add(line(1, 0.5)+line(2, 0.25), "data: digits\nmodel: {preset: mlp}\n", "{}", "/api/curves", "x=step&columns=100&panel=loss")
	f.Add("{\"step\":1e300,\"loss\":-1e-300}\n{", "data: <script>\n", "", "/api/curves", "x=time&columns=1&from=1&to=0")
	f.Add("\x00\xff\n{\"step\":-1}\n"+line(3, 1), "name: \"\\x00\u202e\"\n", "null", "/api/run", "run=x")
	f.Add(strings.Repeat("[", 3000), "a: &a [*a]\n", "[1]", "/api/compare", "run=a&run=b")
	f.Add("", "", "", "/api/step", "run=%00")
	f.Fuzz(func(t *testing.T, metrics, config, report, path, query string) {
		folder := t.TempDir()
		dir := filepath.Join(folder, "r")
		err := os.Mkdir(dir, 0o755)
		for name, text := range map[string]string{rundir.MetricsName: metrics, rundir.ConfigName: config, rundir.ReportName: report} {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Folder: folder, Log: func(text string) { t.Error(text) }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		id := RunID(dir)
		for _, q := range []string{query, "run=" + id + "&" + query, "run=" + id, "run=" + id + "&x=epoch&columns=7&panel=loss"} {
			for _, p := range []string{"/api/table", path, "/api/run", "/api/curves", "/api/compare", "/metrics"} {
				r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
				if r.URL.Path, r.URL.RawQuery = p, q; p == "/api/events" { // which does not end
					continue
				}
				r.Header.Set("Authorization", "Bearer "+s.Token())
				w := httptest.NewRecorder()
				if s.ServeHTTP(w, r); w.Code >= http.StatusInternalServerError {
					t.Errorf("%s?%s: %d %s", p, q, w.Code, w.Body)
				}
			}
		}
	})
}
