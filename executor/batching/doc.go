// Package batching puts samples of requests that wait together into batches, for a
// program that computes one batch at a time. A batch has one of a few sizes, the
// buckets: 1, 2, 4, … up to the largest; what is missing to the next one is filled with
// zeros. So a program is compiled once for each bucket, however requests come. While a
// batch is computed, the next one fills up; no request waits for others to come.
//
//	q := batching.New(batching.Options{Batch: 32, Waiting: 1024, Run: run})
//	defer q.Close()
//	out, err := q.Do(ctx, rows, 4*features, nil) // from any goroutine
//
// The types to know are [Queue] and [Options].
package batching
