// Package examples holds small programs that use Berth from Go. Each is read from top
// to bottom in a few minutes, and tested:
//
//   - dataset: a data set of its own, in a trainer of its own
//   - op: an op with its gradient, and a layer that uses it, in a trainer of its own
//   - loss: a loss of its own
//   - gan: two networks that train against each other
//   - finetune: a trained body under a new head
//   - server: answers over HTTP
//
// Run one with go run ./examples/gan, for example.
package examples
