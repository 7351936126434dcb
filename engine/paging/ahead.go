package paging

// mostAhead is the most launches whose loads are queued before they are due. The
// host is that far ahead anyway; more only takes memory.
const mostAhead = 3

// Ahead is the number of launches whose loads to queue before they are due, so
// that they overlap with the launches before: as many as leave the fewest launches
// waiting, among those that move hardly more than none ahead.
func Ahead(t *Trace, limit int64) int {
	n, _ := ahead(t, limit)
	return n
}

// ahead is Ahead, with the replay of the choice.
func ahead(t *Trace, limit int64) (int, Result) {
	best, result := 0, replay(t, limit, 0)
	if result.Moved() == 0 {
		return best, result
	}
	most := result.Moved() + result.Moved()/20
	for n := 1; n <= mostAhead; n++ {
		if r := replay(t, limit, n); r.Moved() <= most && r.Waits < result.Waits {
			best, result = n, r
		}
	}
	return best, result
}
