// Server answers over HTTP with a trained model, whose weights stay on the devices
// between requests. Requests may come at once: they take turns, and one whose client has
// gone leaves the queue. For a run of digits (trainer train digits --run runs/digits):
//
//	go run ./examples/server runs/digits
//	curl -d '[[0, 0.1, …64 numbers]]' localhost:8080/predict
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// open copies the best weights of a run to the devices. close gives them back.
func open(ctx context.Context, run string) (model *berth.Trained, service *berth.Service, err error) {
	cfg, err := configs.Load(filepath.Join(run, "config.yaml"), configs.Overlay{})
	if err != nil {
		return nil, nil, err
	}
	if model, err = berth.OpenTrained(ctx, cfg, berth.Weights{Dir: run, Best: true}); err != nil {
		return nil, nil, err
	}
	service, err = model.Serve(ctx)
	return model, service, err
}

// handler answers a list of samples with a list of the model's outputs.
func handler(model *berth.Trained, service *berth.Service) http.Handler {
	sample := model.Info().Inputs[0].Meta // such as f32[1,8,8]
	mux := http.NewServeMux()
	mux.HandleFunc("POST /predict", func(w http.ResponseWriter, r *http.Request) {
		var samples [][]float32
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&samples); err != nil || len(samples) == 0 {
			http.Error(w, "send a list of samples, each a list of numbers", http.StatusBadRequest)
			return
		}
		var flat []float32
		for i, x := range samples {
			if len(x) != sample.Elems() {
				http.Error(w, fmt.Sprintf("sample %d has %d numbers, and the model takes %d", i, len(x), sample.Elems()), http.StatusBadRequest)
				return
			}
			flat = append(flat, x...)
		}
		shape := append([]int{len(samples)}, sample.Shape...)
		out, err := service.Predict(r.Context(), tensor.New(tensor.WithShape(shape...), tensor.WithBacking(flat)))
		if err != nil { // the request's context ends with its client
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		answers, n := make([][]float32, len(samples)), out.Shape()[1]
		for i := range answers {
			answers[i] = out.Float32s()[i*n : (i+1)*n] // the probability of each class
		}
		_ = json.NewEncoder(w).Encode(answers) // a client that has gone hears nothing
	})
	return mux
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: server RUN, such as runs/digits")
	}
	model, service, err := open(context.Background(), os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("localhost:8080", handler(model, service)))
}
