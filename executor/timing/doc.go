// Package timing times segments on the devices that will run them. All devices
// are busy meanwhile, as in training, so that what they share (memory, caches, a
// clock that slows down) counts.
//
//	times, err := timing.Segments(ctx, devs, timing.Tasks(launches), timing.Options{})
//
// The contents of tensors are made up: variables have their first values, and the
// rest is finite. The types to know are [Task] and [Options].
package timing
