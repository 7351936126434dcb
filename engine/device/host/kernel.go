package host

// Kernel computes one cluster. One goroutine at a time runs it.
type Kernel interface {
	// ScratchBytes is the working memory that Run needs.
	ScratchBytes() int64
	// Run computes out from in. All memory is contiguous and aligned to 64
	// bytes. out[i] may be the memory of an input if the cluster's Alias says
	// so. The contents of scratch are undefined.
	Run(in, out [][]byte, scratch []byte) error
}

// Packer is a Kernel that packs one input: it reads it in an order of its own.
// The device can keep the packed copy for later runs.
type Packer interface {
	Kernel
	// Packs states the input that is packed, the bytes of its packed copy, and
	// the layout. Kernels with equal layouts make equal copies of equal inputs.
	// With 0 bytes there is nothing to keep.
	Packs() (input int, bytes int64, layout string)
	// UsePacked gives the next run memory for the packed copy. If valid, the
	// copy is there already; otherwise the run makes it there. With nil memory
	// the run packs in its own scratch.
	UsePacked(memory []byte, valid bool)
}
