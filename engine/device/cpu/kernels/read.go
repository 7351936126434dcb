package kernels

// word is an element that is moved bit for bit.
type word interface{ int32 | float32 }

// read writes to dst what v shows of x from its element i on.
func read[T word](v *view, dst, x []T, i int) {
	inner, step := v.run()
	rows, apart := 1, 0
	if last := len(v.dims) - 1; last > 0 {
		rows, apart = v.dims[last-1], v.strides[last-1]
	}
	for len(dst) > 0 {
		row, off := i/inner, i%inner
		at := v.at(row)
		n := min(rows-row%rows, len(dst)/inner) * inner // whole rows
		if off > 0 || n == 0 {
			n = min(inner-off, len(dst))
			copyRun(dst[:n], x[at+off*step:], step)
		} else {
			readRows(dst[:n], x[at:], inner, step, apart)
		}
		dst, i = dst[n:], i+n
	}
}

// readRows writes rows of n elements of x that are step apart; rows are apart
// elements from each other.
func readRows[T word](dst, x []T, n, step, apart int) {
	at := 0
	switch {
	case apart == 0:
		copyRun(dst[:n], x, step)
		for ; n < len(dst); n *= 2 {
			copy(dst[n:], dst[:n])
		}
		return
	case step == 1 && n <= shortRow:
		done := copyShort(dst, x, n, apart)
		dst, at = dst[done*n:], done*apart
	case step == 0 && n <= fewWords:
		for ; len(dst) >= fewWords; dst, at = dst[n:], at+apart {
			v := x[at]
			*(*[fewWords]T)(dst) = [fewWords]T{v, v, v, v}
		}
	}
	for ; len(dst) > 0; dst, at = dst[n:], at+apart {
		copyRun(dst[:n], x[at:], step)
	}
}

// Short rows are copied a few words at a time; what goes beyond a row is
// overwritten by the next one.
const (
	shortRow = 16
	fewWords = 4
)

// copyShort copies rows but the last ones, beyond which there is no room for a
// few words, and says how many.
func copyShort[T word](dst, x []T, n, apart int) int {
	room := (n + fewWords - 1) &^ (fewWords - 1)
	p, q, rows := 0, 0, 0
	for ; p+room <= len(dst) && q+room <= len(x); rows++ {
		for j := 0; j < n; j += fewWords {
			*(*[fewWords]T)(dst[p+j:]) = *(*[fewWords]T)(x[q+j:])
		}
		p, q = p+n, q+apart
	}
	return rows
}

// copyRun reads every stride-th element.
func copyRun[T word](y, x []T, stride int) {
	switch stride {
	case 1:
		copy(y, x[:len(y)])
	case 0:
		v := x[0]
		for i := range y {
			y[i] = v
		}
	default:
		p := 0
		for i := range y {
			y[i] = x[p]
			p += stride
		}
	}
}
