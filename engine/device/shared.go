package device

// Shared is a Buffer whose memory others than its device can use, such as a network: the
// host addresses it. They are ordered by events, as streams are.
type Shared interface {
	Buffer
	// Bytes is the memory; nil if the host does not address it. It may be used between Keep
	// and Leave alone.
	Bytes() []byte
	// Keep keeps the memory until Leave, also if the buffer is freed meanwhile. written is the
	// event of the end where the memory is written; otherwise the zero Event.
	Keep(written Event) error
	// Wrote tells that the contents are others. Call it before they are written, when all that
	// used those before has ended.
	Wrote()
	// Leave ends what Keep has begun.
	Leave()
}
