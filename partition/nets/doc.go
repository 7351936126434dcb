// Package nets has small training graphs for the tests of a plan's passes: [Chain], [Tied], [DeepGPT], and
// with [Draw] random ones.
package nets
