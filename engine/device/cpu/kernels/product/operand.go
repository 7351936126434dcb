package product

// operand is a matrix in memory: element (i, j) is data[i*rs+j*cs]. One of the
// strides is 1.
type operand struct {
	data   []float32
	rs, cs int
}

// check panics unless the rows x cols elements are inside data: assembly does
// not check.
func (o *operand) check(rows, cols int) {
	if rows > 0 && cols > 0 {
		_ = o.data[(rows-1)*o.rs+(cols-1)*o.cs]
	}
}

// from is o from row i and column j on.
func (o *operand) from(i, j int) operand {
	return operand{data: o.data[i*o.rs+j*o.cs:], rs: o.rs, cs: o.cs}
}

// transposed swaps rows and columns.
func (o operand) transposed() operand { return operand{data: o.data, rs: o.cs, cs: o.rs} }

// panels are the columns of a block of B: panel p starts at element p*step and
// has nr columns; its k rows are stride elements apart. Those of a large B in place are fetched ahead.
type panels struct {
	data         []float32
	step, stride int
	k            int
	ahead        bool
}
