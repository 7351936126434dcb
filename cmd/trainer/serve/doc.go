// Package serve answers over HTTP with a trained model: trainer serve as an
// [http.Handler], for programs that have a server of their own. Weights stay on the
// devices; requests that wait are put together into batches; newer checkpoints of the run
// take the place of older ones between two requests.
//
//	s, err := serve.Open(ctx, serve.OpenOptions{Config: cfg, Weights: berth.Weights{Dir: "runs/digits"}})
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
// # Why does each adapter have programs of its own?
//
// Adapters of one base differ in ranks and targets, so their graphs differ. Programs of one runtime share the
// variables that have the same name, and so the base; those of an adapter are its own. One program with the
// adapters' weights switched between batches would need one rank and one list of targets for all, and a batch of
// several adapters at once would multiply gathered weights, in another order: its answers would not be those of
// the adapter alone to the bit.
//
// # Why is the memory of requests counted before they are read?
//
// The queue counts samples, and a body of four megabytes may be one sample or none; its answers may have
// two numbers or a hundred thousand. Whoever looks at a request after parsing has spent the memory already,
// a thousand times where a thousand come at once. So a request holds from the beginning what its length
// allows at most, and gives back what it does not need once it is parsed. It never asks for more later:
// requests that wait for memory while they hold some would wait for each other. One that can never fit is
// told so (413), one that others leave no room for is told to come back (503).
//
// # Why is a bound by client address no bound for all?
//
// A client that may take half of everything cannot keep another from its half, and a server without
// other clients loses little but larger steps: --client-share 100 gives one client all texts at once.
// What a client may not have yet waits, where waiting holds little; memory and connections are refused.
//
// # Why is the server a package below the command?
//
// It uses the public face, `berth`, and knows no more than a program could. So it stands above that face,
// beside `cmd/trainer/command`, which programs import too; below it, `berth.Service` has batches without
// HTTP, and `executor/batching` knows neither.
package serve
