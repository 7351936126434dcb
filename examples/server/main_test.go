package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// Requests are answered at once from several clients, or refused with a reason, beside the
// program's own page.
func TestServer(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	cfg, err := configs.Load("digits", configs.Overlay{Set: []string{"train.epochs=1"}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(ctx, cfg, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := run.Train(ctx, berth.TrainOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	model, err := open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	}()
	server := httptest.NewServer(pages(model))
	defer server.Close()
	ask := func(method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
		if err != nil {
			return 0, err.Error()
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return 0, err.Error()
		}
		return answer.StatusCode, string(text)
	}
	blank := "[" + strings.Repeat("0,", 63) + "0]"
	var clients sync.WaitGroup
	for k := range 8 {
		clients.Go(func() {
			code, text := ask(http.MethodPost, "/model/predict", `{"inputs": [`+strings.Repeat(blank+",", k)+blank+"]}")
			if code != http.StatusOK || strings.Count(text, `"class":`) != k+1 {
				t.Errorf("client %d: %d %s", k, code, text)
			}
		})
	}
	clients.Wait()
	if code, text := ask(http.MethodPost, "/model/predict", `{"inputs": [[1,2]]}`); code != http.StatusBadRequest || !strings.Contains(text, "inputs[0]") {
		t.Errorf("%d %s", code, text)
	}
	want := fmt.Sprintf("the model has learned for %d steps\n", report.Steps)
	if code, text := ask(http.MethodGet, "/", ""); code != http.StatusOK || text != want {
		t.Errorf("%d %s, want %s", code, text, want)
	}
}
