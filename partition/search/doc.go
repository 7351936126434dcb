// Package search cuts a chain of blocks into stages and chooses their devices. It
// knows blocks by number, and their costs alone.
//
//  1. Lines: the devices that the stages may be on, in order. Devices of one class
//     count as one (lines.go).
//  2. For the most promising lines, a dynamic program over (blocks placed, stages
//     used) finds the cuts with the least bottleneck that fit in memory (cuts.go).
//  3. The best of all these are simulated, and the fastest is taken (search.go). Of a
//     small problem, all ways are (all.go).
//
// The types to know are [Problem], [Device] and [Way].
//
// # Why is a cut chosen three times, by its bottleneck and by two simulations?
//
// The time of the busiest device is a sum over blocks, so a dynamic program finds the cuts with the least
// of it among millions. It knows nothing of how a pipeline fills and drains, and of when copies arrive. A
// simulation of the schedule does, and takes far too long for all cuts. So the best 32 by bottleneck are
// simulated, or all of a small model.
//
// The prediction that users read is another simulation, of the plan's launches with the tensors that they
// read: it holds for every schedule, reduction and number of replicas, since it knows none of them. In
// branched models it differs from that of the schedule, by copies that skip stages or wait for each other.
// So it decides among the up to 16 cuts that the schedule's simulation finds fastest; both take their times
// from the same flops and bytes. With measured times the schedule's simulation decides: before a cut is
// chosen, only blocks have been timed. A gain of less than 3 % or 50 µs a step does not show in measured
// steps: then the more even cut is taken.
package search
