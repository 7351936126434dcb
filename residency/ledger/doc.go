// Package ledger counts the bytes that move between the host and devices: by kind,
// reason, usage and device, in all and per step.
//
// The types to know are [Ledger], [Row], [Kind], [Reason] and [Steady].
package ledger
