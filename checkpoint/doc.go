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
// Begin with manifest.go: what a run saves. Then follow a save through open.go, save.go and db.go, and a
// read through snapshot.go, live.go, read.go and pages.go. The files, from the caller's side down to
// the bytes:
//
//   - manifest.go, errors.go: the types that a run saves, and what can go wrong
//   - open.go, lock.go, replace.go: opening and closing a file, its lock, and a new file in its place
//   - save.go: saving. snapshot.go: finding, loading and reading checkpoints
//   - prune.go: deleting checkpoints and making room. copy.go: copying while another process saves
//   - repair.go: verifying, salvaging, recovering; whose a file is
//   - safetensors.go, inspect.go: export and import; numbers about tensors
//   - db.go, index.go, live.go: the state of an open file and its transactions; its chunks and
//     checkpoints; the newest state of a file that another process writes
//   - record.go, read.go: making records and their second copies; reading records and chunks
//   - pages.go, walk.go: bbolt's pages. scan.go: records and contents that no page leads to any more
//   - direct_linux.go, addresses_unix.go, and the like: what one system has
//
// Tests are named after the files. Those of the whole package are model_test.go (any sequence of calls),
// damage_test.go (any damage), and crash_test.go, faults_linux_amd64_test.go and
// powerloss_linux_amd64_test.go (processes and disks that fail); rig_test.go is for all of them.
//
// # Why do readers take no lock while a run writes?
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
