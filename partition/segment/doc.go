// Package segment is pass 5 of a plan: it takes a placed graph and gives the [Segment]s that
// devices compile and launch.
//
//  1. [NewGroups] sorts the nodes by stage and phase, and finds the updates that run behind
//     their gradients (groups.go).
//  2. A stage's nodes become units, one for each pass; phases are merged where a step has one
//     microbatch, and the backward phase is cut in two where the schedule has W (units.go).
//  3. [Make] cuts the units into pieces of a [Grain] (list.go), and finds the tensors that each
//     piece reads and writes, with the sums over microbatches (slots.go).
//
// [Transfers] lists what one stage reads of another.
//
// # Why do the first and the later microbatches run different segments?
//
// The first microbatch writes each gradient's sum; the later ones add to it in place. Starting from zeros
// instead would first write the zeros, and then read and write each gradient once more.
//
// # Why is Update cut into levels?
//
// Clipping needs the norm of all gradients before the first update. A node of the update that reads another
// stage's result is one level above that result. Each level of a stage is a segment of its own, so the
// segments can be ordered without cycles. An assignment counts as coming after every other reader of its
// variable, on whatever stage.
//
// # Why are phases merged for a single microbatch?
//
// A value that two segments share must be a buffer outside both. A value inside one segment is a temporary
// of its arena and shares memory with others. With one microbatch no gradient waits for further ones: each
// update runs right behind its gradient, whose memory is then free, and the last stage goes from forward to
// backward at once. On one stage the whole step is one segment, `FBU` in the plan. A node of the update
// that waits for a lower stage stays outside; behind a gradient norm over several stages, that is every
// one. With several microbatches all sums live to the step's end anyway, so phases stay apart.
//
// # How is W cut from the backward phase?
//
// Another stage waits for the gradients of its outputs; the gradients of weights can wait for the update.
// Where the schedule has W (`zb-h1`), a plan goes through a stage's backward nodes from last to first. A
// node whose result the backward phase of another stage reads is B, and so is all that leads to it; the
// rest is W. So the graph needs no further phase, and every op is cut alike: tied weights, skip
// connections, attention. The first stage has no B, since no stage waits for it. A node that both need runs
// in B, a recomputed one too, and its results are kept until W, with the activations that W reads: the
// forecast counts them. Each sum has one part, in B or in W, and both go in microbatch order, so the bits
// are those of every other schedule. Phases are not merged then, with one microbatch either: B ends sooner
// alone.
package segment
