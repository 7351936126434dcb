// Package hosttensor converts between this runtime's tensors and gorgonia's
// dense tensor, the form in which Go programs pass tensors in and get them
// back. Only the edges of the runtime import it: residency and executor/eager.
// Nothing below them depends on gorgonia.
//
// [New] makes a tensor to copy contents into; [Bytes] gives the contents of one.
package hosttensor
