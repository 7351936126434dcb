// Package checkpoint keeps snapshots of a training run in one bbolt file.
//
// A snapshot is a [Manifest] (the step and epoch, the run's configuration, its
// metrics) and named tensors. Tensors are cut into chunks, stored under the hash
// of their contents: a tensor that did not change between two checkpoints is
// stored once. Everything carries a checksum. Reading gives the bits that were
// saved, or an error that names the damaged checkpoint, tensor and chunk.
//
// Writing goes through bbolt; reading does not. The package reads bbolt's pages
// itself and checks every bound, so a damaged or truncated file is an error and
// never a fault in a memory mapping. Before bbolt may write to a file, the whole
// structure of the file is checked. docs/checkpoint-format.md describes the
// format.
//
// The types to know are [DB], [Manifest], [Source], [Snapshot] and [Keep].
//
// Where to read on, from the caller's side down to the bytes:
//
//   - manifest.go: the types that a run saves; open.go, lock.go: opening a file
//   - save.go; snapshot.go, list.go, verify.go: reading, in whole or in part
//   - prune.go, delete.go, compact.go: making room
//   - copy.go: copying while another process saves
//   - salvage.go, recover.go, replace.go: going on after damage
//   - export.go, import.go, inspect.go: safetensors; numbers about tensors
//   - db.go, index.go, commit.go: the state of an open file, and its transactions
//   - read.go, record.go, compress.go: records and chunks
//   - pages.go, walk.go, fresh.go: bbolt's pages; scan.go, rescue.go: contents
//     that no page leads to any more
//
// # Why do readers beside a run take no lock?
//
// A lock would stop the run for as long as an evaluation takes, or the evaluation for as long as the run
// takes. bbolt overwrites only pages that the state before did not use, and everything that matters has a
// checksum. So a reader takes the newest state, and whatever changed under it shows as a mismatch; it then
// looks whether the checkpoint is still there, which tells deletion from damage. Holding the pages for
// readers would need a list of them that survives killed readers; reading once more needs nothing.
//
// # Why does checkpoint not read through bbolt's mapping?
//
// A damaged page turns into a fault there. The package reads bbolt's pages itself, with bounds checked;
// bbolt writes. See checkpoint-format.md.
package checkpoint
