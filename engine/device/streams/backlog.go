package streams

// backlog is the commands of a queue that have not ended. It grows as it must, so
// that queueing never waits; its memory is kept for later. The queue's lock guards
// it. A command itself is used without the lock: by the goroutine that runs it.
type backlog struct {
	head, tail *piece // of the next command to run, and of the last one queued
	spare      *piece // for reuse, linked by next
}

// piece is consecutive commands: number n is at index n%pieceSize.
type piece struct {
	commands [pieceSize]command
	next     *piece
}

const pieceSize = 128

// add adds the command with the next number, from 1 on.
func (b *backlog) add(seq uint64, c command) {
	if seq%pieceSize == 0 || b.tail == nil {
		p := b.spare
		if p == nil {
			p = new(piece)
		} else {
			b.spare, p.next = p.next, nil
		}
		if b.tail == nil {
			b.head = p
		} else {
			b.tail.next = p
		}
		b.tail = p
	}
	b.tail.commands[seq%pieceSize] = c
}

// next is the command with the next number, from 1 on. The ones before it have
// ended.
func (b *backlog) next(seq uint64) *command {
	if seq%pieceSize == 0 {
		p := b.head
		b.head = p.next
		b.spare, p.next = p, b.spare
	}
	return &b.head.commands[seq%pieceSize]
}
