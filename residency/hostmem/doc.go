// Package hostmem is the host memory of tensors: within a bound, and beyond it in
// a file.
//
// A [Memory] gives out a [Block] for a tensor's bytes. The owner records in it what it
// has, tells the block of each copy that it queues from or to it, and pins it while
// the host itself reads or writes. A dropped block is freed once its copies have ended
// and nobody pins it. The blocks of spills are kept for the next spills: a step spills
// the same sizes as the step before, so that in the long run no page is mapped.
// A dropped block of the file is free at once for whoever waits for its copies: copies
// are queued long before they run, and the file's size is to depend on their order alone.
//
// The types to know are [Memory], [Block] and [Options].
//
// Nothing here waits, except for [Memory.Close]. The caller's lock guards a Memory and
// its blocks.
package hostmem
