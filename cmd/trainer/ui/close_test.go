package ui

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Requests that come while the server ends are answered, or told that it ends. None fails, and none begins to read behind its end.
func TestRequestsDuringClose(t *testing.T) {
	folder := copied(t, "run")
	for range 50 {
		s, err := New(Options{Folder: folder, Log: func(text string) { t.Error(text) }})
		if err != nil {
			t.Fatal(err)
		}
		ask := func() int {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/api/table", nil)
			r.Header.Set("Authorization", "Bearer "+s.Token())
			s.ServeHTTP(w, r)
			return w.Code
		}
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() {
				for status := http.StatusOK; status != http.StatusServiceUnavailable; {
					if status = ask(); status != http.StatusOK && status != http.StatusServiceUnavailable {
						t.Errorf("status %d", status)
						return
					}
				}
			})
		}
		s.Close()
		asking.Wait()
		if status := ask(); status != http.StatusServiceUnavailable {
			t.Errorf("behind its end: status %d", status)
		}
	}
}
