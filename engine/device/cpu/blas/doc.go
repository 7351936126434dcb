// Package blas multiplies matrices with OpenBLAS, which it finds when the
// program runs: the library is an option and an oracle for tests, and nothing
// is needed to build with it.
//
// [Open] loads the library once for the process and keeps it to one thread, as
// callers share the work among their own: then each call computes the same bits
// whatever runs beside it. A program that can load libraries needs the system's
// C library when it starts; the build tag static leaves that out, and [Open]
// fails.
//
// The types to know are [Library] and [Call].
package blas
