// Package devicetest is the one conformance suite of devices. A kind's test
// calls [Run] with how its devices are opened; what a kind says in its Spec
// (whether it can copy out, whether it copies from peers) decides what is
// checked of it. A kind that cannot copy out is taken to compute nothing: of
// its launches only order, memory and rules are checked.
package devicetest
