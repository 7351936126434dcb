// Package feed takes batches from a dataset to a program. A [Feeder] reads
// ahead into pinned host memory, queues a step for each batch, and gives the
// memory back to the reader once the step is over.
//
//	f, err := feed.New(dev, prog, part, datasets.LoaderOptions{Batch: 32})
//	…
//	b, err := f.Next(ctx)
//	…
//	err = f.Step(ctx, b)          // queued; it runs meanwhile
//	err = f.Settle(ctx, 1, done)  // waits for the step before it
//
// The type to know is [Feeder]; [Each] goes over a part once, and [Spread] with several
// programs that compute the same.
package feed
