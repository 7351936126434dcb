package checkpoint

import (
	"errors"
	"path/filepath"
	"testing"
)

// lender lends every part of a tensor but each third, which it lets be read.
type lender struct {
	*mem
	calls, reads, fails int
}

var errLender = errors.New("out of paper")

func (l *lender) Lend(name string, off int64, n int) ([]byte, error) {
	if l.calls++; l.calls == l.fails {
		return nil, errLender
	}
	if l.calls%3 == 0 {
		return nil, nil
	}
	return l.data[name][off : off+int64(n)], nil
}

func (l *lender) Read(name string, off int64, dst []byte) error {
	l.reads++
	return l.mem.Read(name, off, dst)
}

// TestLender: what is lent and what is read come to the same file.
func TestLender(t *testing.T) {
	for _, o := range []OpenOptions{small, {ChunkBytes: 4096, TxBytes: 4096}, {ChunkBytes: 4096, TxBytes: 16384, Compress: true}, {}} {
		db := open(t, filepath.Join(t.TempDir(), "c.db"), o)
		for step := 1; step <= 3; step++ {
			m, src := at(step)
			l := &lender{mem: src}
			id, err := db.Save(ctxForever, m, l)
			if err != nil {
				t.Fatal(err)
			}
			if l.reads == 0 && o.ChunkBytes > 0 || l.reads == l.calls {
				t.Errorf("%d of %d pieces were read", l.reads, l.calls)
			}
			s, err := db.Load(id)
			if err == nil {
				err = sameTensors(s, src)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		m, src := at(4)
		if _, err := db.Save(ctxForever, m, &lender{mem: src, fails: 2}); !errors.Is(err, errLender) {
			t.Errorf("got %v", err)
		}
		save(t, db, 5)
		if err := db.Verify(ctxForever, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
}
