// Package batching puts samples of requests that wait together into batches, for a
// program that computes one batch at a time, or for several, each on devices of its own. A batch has one of a few sizes, the
// buckets: 1, 2, 4, … up to the largest; what is missing to the next one is filled with
// zeros. So a program is compiled once for each bucket, however requests come. While a
// batch is computed, the next one fills up; no request waits for others to come.
//
//	q := batching.New(batching.Options{Batch: 32, Waiting: 1024, Run: run})
//	defer q.Close()
//	out, err := q.Do(ctx, rows, 4*features, nil) // from any goroutine
//
// The types to know are [Queue] and [Options].
//
// # Why does no request wait for others to join its batch?
//
// A batch is made when the devices are free, of what waits then. Under load that fills batches by itself,
// since requests gather while a batch is computed; without load a request is alone, and waiting would only
// make it later. So there is no time to choose.
//
// # Why do batches have few sizes?
//
// A program is compiled for a number of samples. With 1, 2, 4, … up to the largest, six programs do for 32
// samples, and a batch computes less than twice the samples that it has. The sizes may not show in an
// answer: an element of an output is summed in the same order whatever the number of rows, and the tests
// compare the bits.
package batching
