// Package signals turns signals into requests: [Stop] to stop, [SaveNow] to save
// a checkpoint.
package signals
