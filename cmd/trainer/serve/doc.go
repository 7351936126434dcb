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
//
// # Why are newer weights loaded beside the older ones?
//
// Replacing weights in place would stop requests for as long as reading takes, and a checkpoint that turns
// out damaged would leave half a model. Beside the older ones, newer weights are read and checked while
// requests go on; one pointer changes between two requests. A service of its own for each checkpoint also
// means that no request sees weights of two.
//
// # Why does a reload not wait for device memory?
//
// The server has its devices alone. So where there is no room beside the weights in use, only these can
// make it, and they stay until the newer ones are there: waiting would never end. The load is refused at
// once, the older weights leave, and requests wait. A load that is slow for other reasons has its memory
// already, and takes as long as it takes.
//
// # Why is the memory of answers bounded, beside the queue?
//
// The queue counts samples, and the answer to a sample may have two numbers or a hundred thousand. Each
// request reserves the bytes of its answers before it is queued, and has them until they are written, also
// to a slow client. A request that can never fit is told how many samples would (413), one that others
// leave no room for is told to come back (503): neither waits, as nothing waits for a full queue.
//
// # Why is the server a package below the command?
//
// It uses the public face, `berth`, and knows no more than a program could. So it stands above that face,
// beside `cmd/trainer/command`, which programs import too; below it, `berth.Service` has batches without
// HTTP, and `executor/batching` knows neither.
package serve
