package crew

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/executor/ranks"
)

// chunk is the most bytes that a rank asks for at once.
const chunk = 4 << 20

// request is what a Borrower asks for: bytes of an item. A negative item asks for nothing any more.
type request struct{ item, off, n int64 }

const requestBytes = 24

func (r request) put(b []byte) {
	for i, x := range []int64{r.item, r.off, r.n} {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(x))
	}
}

func requestOf(b []byte) request {
	at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	return request{at(0), at(1), at(2)}
}

// Lend gives another rank the bytes that its [Borrower] asks for, until that ends. read writes all of dst: bytes of an
// item, from off on. Its failure is the Borrower's, too, and ends the lending. One goroutine lends to a rank at a time.
func (c *Crew) Lend(ctx context.Context, to int, read func(item int, off int64, dst []byte) error) error {
	var asked [requestBytes]byte
	var b []byte
	for {
		// Whoever borrows may write to a slow disk meanwhile: there is no limit of time.
		if err := c.transport.Recv(to, ranks.TagLend, asked[:]).Wait(ctx); err != nil {
			return err
		}
		r := requestOf(asked[:])
		switch {
		case r.item < 0:
			return nil
		case r.n < 0 || r.n > chunk:
			return fmt.Errorf("BUG: %s asks for %d bytes", c.Name(to), r.n)
		}
		if b == nil {
			b = make([]byte, chunk)
		}
		if failed := read(int(r.item), r.off, b[:r.n]); failed != nil {
			return errors.Join(failed, c.refuse(ctx, to, failed))
		}
		var ok [8]byte
		first := c.transport.Send(to, ranks.TagLend, ok[:])
		if err := c.await(ctx, to, "that it takes what it asked for", first, c.transport.Send(to, ranks.TagLend, b[:r.n])); err != nil {
			return err
		}
	}
}

// refuse tells a Borrower why it gets nothing: the length of the reason, in place of 0, and the reason.
func (c *Crew) refuse(ctx context.Context, to int, why error) error {
	text := []byte(why.Error())
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return c.await(ctx, to, "that it takes a refusal", c.transport.Send(to, ranks.TagLend, length), c.transport.Send(to, ranks.TagLend, text))
}

// Borrower asks a rank that lends for bytes. One goroutine uses it at a time.
type Borrower struct {
	crew *Crew
	from int
	over bool // the other does not lend any more
}

// Borrow begins to ask a rank, which calls [Crew.Lend]. The caller calls End.
func (c *Crew) Borrow(from int) *Borrower { return &Borrower{crew: c, from: from} }

// Read fills dst with bytes of an item, from off on.
func (b *Borrower) Read(ctx context.Context, item int, off int64, dst []byte) error {
	for len(dst) > 0 {
		n := min(len(dst), chunk)
		if err := b.read(ctx, request{int64(item), off, int64(n)}, dst[:n]); err != nil {
			return err
		}
		off, dst = off+int64(n), dst[n:]
	}
	return nil
}

func (b *Borrower) read(ctx context.Context, r request, dst []byte) error {
	if err := b.ask(ctx, r); err != nil {
		return err
	}
	var refused [8]byte
	if err := b.recv(ctx, refused[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(refused[:])
	if n == 0 {
		return b.recv(ctx, dst)
	}
	b.over = true
	if n > longest {
		return fmt.Errorf("%s refuses with %d bytes", b.crew.Name(b.from), n)
	}
	text := make([]byte, n)
	if err := b.recv(ctx, text); err != nil {
		return err
	}
	return fmt.Errorf("%s: %s", b.crew.Name(b.from), text)
}

func (b *Borrower) ask(ctx context.Context, r request) error {
	var m [requestBytes]byte
	r.put(m[:])
	return b.crew.await(ctx, b.from, "that it lends", b.crew.transport.Send(b.from, ranks.TagLend, m[:]))
}

func (b *Borrower) recv(ctx context.Context, dst []byte) error {
	return b.crew.await(ctx, b.from, "variables", b.crew.transport.Recv(b.from, ranks.TagLend, dst))
}

// End tells the other that nothing is asked for any more. A second call does nothing.
func (b *Borrower) End(ctx context.Context) error {
	if b.over {
		return nil
	}
	b.over = true
	return b.ask(ctx, request{item: -1})
}
