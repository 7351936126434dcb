// Server answers over HTTP with a trained model, beside pages of its own: the handler of
// trainer serve is mounted at /model/. Requests that come at once are put together into
// batches, and a newer checkpoint of the run takes the older one's place. For a run of
// digits (trainer train digits --run runs/digits):
//
//	go run ./examples/server runs/digits
//	curl -d '{"inputs": [[0, 0.1, …64 numbers]]}' localhost:8080/model/predict
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/serve"
	"github.com/berth-ml/berth/configs"
)

// open copies the best weights of a run to the devices. The caller closes the server.
func open(ctx context.Context, run string) (*serve.Server, error) {
	cfg, err := configs.Load(filepath.Join(run, "config.yaml"), configs.Overlay{})
	if err != nil {
		return nil, err
	}
	return serve.Open(ctx, serve.OpenOptions{
		Config: cfg, Weights: berth.Weights{Dir: run},
		Limits: serve.Limits{Samples: 100},
		Log:    func(text string) { log.Print(text) },
	})
}

// pages are those of the program, with the model below /model/.
func pages(model *serve.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/model/", http.StripPrefix("/model", model))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "the model has learned for %d steps\n", model.Used().Step)
	})
	return mux
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: server RUN, such as runs/digits")
	}
	model, err := open(context.Background(), os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server := model.HTTP("localhost:8080")
	server.Handler = pages(model)
	log.Fatal(server.ListenAndServe())
}
