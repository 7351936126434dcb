// Package timing times segments on the devices that will run them, compiled or op by
// op, the copies between devices, and calls. All devices
// are busy meanwhile, as in training, so that what they share (memory, caches, a
// clock that slows down) counts.
//
//	times, err := timing.All(ctx, devs, timing.Tasks(plan, launches), timing.Options{})
//
// The contents of tensors are made up: variables have their first values, and the
// rest is finite. The types to know are [Task] and [Options].
package timing
