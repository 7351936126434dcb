package datasets

import (
	"runtime"
	"sync"
)

// piecesFrom is the bytes of a batch's pixels from which on several goroutines read it. Fewer take less than a
// millisecond.
const piecesFrom = 1 << 20

// readers is the number of goroutines that read a batch.
func (p *Part) readers(batch int) int {
	if c := &p.table.columns[0]; c.scale == nil || batch*c.size < piecesFrom {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// pieces reads batches piece by piece, several at a time. A sample is the same in any piece. One goroutine uses it at a time.
type pieces struct {
	part    *Part
	batch   int
	readers int
	work    chan piece
	left    sync.WaitGroup // pieces of the batch that are not read
	running sync.WaitGroup // readers

	mu  sync.Mutex
	err error // of a piece of the batch
}

// piece is some rows of the batch at a cursor.
type piece struct {
	at   Cursor
	rows Rows
	dst  [][]byte
}

func newPieces(part *Part, batch, readers int) *pieces {
	p := &pieces{part: part, batch: batch, readers: readers, work: make(chan piece)}
	for range readers {
		p.running.Go(p.run)
	}
	return p
}

// run is a reader; close ends it.
func (p *pieces) run() {
	rows := make([]Rows, 1)
	for x := range p.work {
		rows[0] = x.rows
		if _, err := p.part.ReadRows(x.at, p.batch, rows, x.dst); err != nil {
			p.mu.Lock()
			p.err = err
			p.mu.Unlock()
		}
		p.left.Done()
	}
}

// read is Part.ReadRows of a batch of n.
func (p *pieces) read(at Cursor, n int, rows []Rows, dst [][]byte) error {
	p.err = nil
	size := (n + p.readers - 1) / p.readers
	if rows == nil {
		p.cut(at, Rows{0, n}, size, dst)
	}
	for _, r := range rows {
		p.cut(at, r, size, dst)
	}
	p.left.Wait()
	return p.err
}

// cut has some rows read, in pieces of at most size.
func (p *pieces) cut(at Cursor, r Rows, size int, dst [][]byte) {
	for from := r.From; from < r.To; from += size {
		p.left.Add(1)
		p.work <- piece{at, Rows{from, min(from+size, r.To)}, dst}
	}
}

// close ends the readers, and waits for them.
func (p *pieces) close() {
	if p == nil {
		return
	}
	close(p.work)
	p.running.Wait()
}
