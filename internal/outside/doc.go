// Package outside tests what programs of other modules add to Berth: ops, layers, losses,
// optimizers and schedules of its own. Its tests use exported names alone.
package outside
