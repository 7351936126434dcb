// Package serve answers over HTTP with a trained model: trainer serve as an
// [http.Handler], for programs that have a server of their own. Weights stay on the
// devices; requests that wait are put together into batches; newer checkpoints of the run
// take the place of older ones between two requests.
//
//	s, err := serve.Open(ctx, serve.OpenOptions{Config: cfg, Weights: berth.Weights{Dir: "runs/digits", Best: true}})
//	…
//	defer s.Close()
//	err = s.HTTP("127.0.0.1:8080").ListenAndServe()   // or http.Handle("/digits/", http.StripPrefix("/digits", s))
//
// Every request has limits: see [Limits]. The page docs/serving.md describes requests,
// answers, errors and metrics.
//
// The types to know are [Server], [OpenOptions] and [Limits].
package serve
