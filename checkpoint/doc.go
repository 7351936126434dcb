// Package checkpoint keeps snapshots of a training run in one bbolt file.
//
// A snapshot is a [Manifest] (where the run stood, and what it was run with)
// and named tensors. Tensors are cut into chunks that are stored under the
// hash of their contents, so a tensor that did not change between two
// checkpoints is stored once. Everything carries a checksum: reading gives the
// bits that were saved, or an error that says which checkpoint, tensor and
// chunk is damaged.
//
// Writing goes through bbolt; reading does not. The package reads bbolt's pages
// itself with bounds checked ([DB.Load], [DB.List], [DB.Verify], and [Copy] of a
// file that another process is writing), so a damaged or truncated file is an
// error and never a fault in a memory mapping, and a file is walked whole before
// bbolt may write to it. The format is described in docs/checkpoint-format.md.
//
// The types to know are [DB], [Manifest], [Source], [Snapshot] and [Keep].
package checkpoint
