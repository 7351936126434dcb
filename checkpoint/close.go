package checkpoint

// Close waits for a save in progress, unlocks the file and closes it.
func (db *DB) Close() error {
	db.writer.Lock()
	defer db.writer.Unlock()
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	if !db.opts.ReadOnly {
		removePid(db.path)
	}
	if db.bolt == nil || db.broken != nil {
		// After a panic, bbolt's Close could wait for ever: its mapping stays.
		return release(db.file)
	}
	return db.guard(db.bolt.Close)
}
