package checkpoint

import "time"

// OpenOptions says how to open a file. The zero value suits training.
type OpenOptions struct {
	ReadOnly   bool          // share the file with other readers; it must exist
	Beside     bool          // for reading: where another process writes to the file, read it without the lock, as it is at each moment. Checkpoints can then be deleted while they are read: ErrDeleted
	Existing   bool          // for writing: the file must exist and have been used, or the error is ErrNotFound and it stays as it is
	ChunkBytes int           // size of new chunks, a multiple of 8; 0: 4 MiB
	TxBytes    int           // most contents in one transaction; a save holds up to three times as much in memory; 0: 64 MiB
	Compress   bool          // compress chunks with zstd where that makes them smaller; the file has FormatPacked from the first save on
	Timeout    time.Duration // longest wait for another process to close the file; 0: none
	Readers    time.Duration // the same, for writing, where the other process only reads; the longer of the two counts
}
