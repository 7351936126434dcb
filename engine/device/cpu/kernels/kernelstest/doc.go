// Package kernelstest holds what the tests of the CPU's kernels share: pools that run
// chunks in every order, memory between guards, random applications of every op, and the
// comparison of a kernel with the reference ([Rig.Check]).
//
// Nothing here is set for the whole process: a [Rig] has the target that it makes kernels
// for, so tests of several instruction sets run at the same time.
package kernelstest
