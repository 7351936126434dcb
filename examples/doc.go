// Package examples holds packages and small programs that use Berth from Go. Each is read
// from top to bottom in a few minutes, and tested. The first five add something to a
// trainer that imports them:
//
//   - dataset: a data set
//   - op: an op with its gradient, and a layer that uses it
//   - lstm: a recurrent layer, as a loop
//   - device: a kind of device with memory of its own
//   - loss: a loss
//   - trainer: that trainer
//   - table: a table with words, dates and missing values, and answers about its rows
//   - model: data, a model and a loss in Go, without YAML
//   - gan: two networks that train against each other
//   - finetune: a trained body under a new head
//   - server: answers over HTTP
//   - opbyop: a training loop of single ops, with neither config nor graph
//
// Run one with go run ./examples/gan, for example.
package examples
