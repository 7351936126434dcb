package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// Requests are answered at once from several clients, refused with a reason, and given
// up with their client.
func TestServer(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	cfg, err := configs.Load("digits", configs.Overlay{Set: []string{"train.epochs=1"}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Train(ctx, berth.TrainOptions{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	model, service, err := open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(service.Close(), model.Close()); err != nil {
			t.Error(err)
		}
	}()
	server := httptest.NewServer(handler(model, service))
	defer server.Close()
	ask := func(ctx context.Context, body string) (int, [][]float32, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/predict", strings.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer answer.Body.Close()
		var text bytes.Buffer
		if _, err := text.ReadFrom(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			return answer.StatusCode, nil, err
		}
		var rows [][]float32
		return answer.StatusCode, rows, json.Unmarshal(text.Bytes(), &rows)
	}
	blank := "[" + strings.Repeat("0,", 63) + "0]"
	var clients sync.WaitGroup
	for k := range 8 {
		clients.Go(func() {
			code, _, err := ask(ctx, "["+strings.Repeat(blank+",", k)+blank+"]")
			if err != nil || code != http.StatusOK {
				t.Errorf("client %d: %d, %v", k, code, err)
			}
		})
	}
	clients.Wait()
	for body, want := range map[string]int{"[[1,2]]": http.StatusBadRequest, "{}": http.StatusBadRequest, "[]": http.StatusBadRequest} {
		if code, _, err := ask(ctx, body); code != want || err != nil {
			t.Errorf("%s: %d, %v", body, code, err)
		}
	}
	gone, leave := context.WithCancel(ctx)
	leave()
	if _, _, err := ask(gone, "["+blank+"]"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
