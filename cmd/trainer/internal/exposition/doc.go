// Package exposition writes numbers in the text format of Prometheus (version 0.0.4), for trainer serve and trainer ui.
//
//	p := exposition.Page{W: w, Prefix: "berth_serve_"}
//	p.One("queue_samples", exposition.Gauge, "Samples that wait for a batch.", 3)
//	p.Begin("errors_total", exposition.Counter, "Requests without an answer.")
//	p.Value("errors_total", 2, "kind", "input")
//
// The type to know is [Page].
package exposition
