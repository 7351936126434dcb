package infer

// SetMostSlots has programs keep the sums of so many batches. It is undone by restore.
func SetMostSlots(n int) (restore func()) {
	before := mostSlots
	mostSlots = n
	return func() { mostSlots = before }
}
