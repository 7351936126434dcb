package serve

import (
	"net/http"
	"sync"

	"github.com/berth-ml/berth/internal/units"
)

// textFactor is by how much the text of an answer takes more memory than its numbers, while
// it is written. Answers of a request are written one by one.
const textFactor = 12

// answerBytes is the memory that answers to so many samples take, of which one has so many
// bytes of numbers.
func answerBytes(samples int, one int64) int64 { return one * (int64(samples) + textFactor) }

// budget bounds the memory that answers of all requests take, from the request's beginning
// until its answer is written. Its methods are safe for concurrent use.
type budget struct {
	most int64

	mu    sync.Mutex
	taken int64
}

// take is memory for answers to so many samples. The caller gives it back.
func (b *budget) take(samples int, one int64) (bytes int64, err error) {
	bytes = answerBytes(samples, one)
	if bytes > b.most {
		return 0, beyond("inputs", "the answers to %d samples take %s of memory, and those of all requests may take %s: send at most %d samples",
			samples, units.Bytes(bytes), units.Bytes(b.most), b.most/one-textFactor)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken+bytes > b.most {
		return 0, &problem{status: http.StatusServiceUnavailable, retry: 1, Kind: kindBusy, Text: "the answers to other requests take all memory that is for answers: try again later, or send fewer samples"}
	}
	b.taken += bytes
	return bytes, nil
}

// give gives memory back.
func (b *budget) give(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= bytes
}

// now is the memory that is taken.
func (b *budget) now() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}
