// Package devicetest is the conformance suite of devices. A kind's test calls
// [Run] with a function that opens its devices. The suite checks the promises
// that a kind makes in its Spec: whether it can copy out, whether it copies
// from peers. A kind that cannot copy out computes nothing, so the suite checks
// only order, memory and rules of its launches.
package devicetest
