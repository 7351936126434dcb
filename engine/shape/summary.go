package shape

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// shownElems is how many elements Summary shows of each end.
const shownElems = 3

// Summary is contents in a few words, for logs: the first and the last elements, then of all
// finite ones the least, the largest and the mean, then how many are NaN and how many infinite.
// b has at least the bytes of m.
func Summary(m Meta, b []byte) string {
	n, at := m.Elems(), elements(m, b)
	text := "[" + ends(n, at) + "]"
	var least, largest, sum float64
	finite, nans, infs := 0, 0, 0
	for i := range n {
		x := at(i)
		switch {
		case x != x:
			nans++
			continue
		case math.IsInf(x, 0):
			infs++
			continue
		case finite == 0:
			least, largest = x, x
		}
		least, largest = min(least, x), max(largest, x)
		sum += x
		finite++
	}
	if finite > 0 {
		text += fmt.Sprintf(", least %s, largest %s, mean %s", number(least), number(largest), number(sum/float64(finite)))
	}
	if nans > 0 {
		text += fmt.Sprintf(", %d NaN", nans)
	}
	if infs > 0 {
		text += fmt.Sprintf(", %d Inf", infs)
	}
	return text
}

// ends lists the first and the last of n elements; all, if they are few.
func ends(n int, at func(i int) float64) string {
	var list []string
	for i := 0; i < n; i++ {
		if i == shownElems && n > 2*shownElems {
			list = append(list, "…")
			i = n - shownElems
		}
		list = append(list, number(at(i)))
	}
	return strings.Join(list, " ")
}

// number has six digits. An integer is shown whole.
func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// elements reads elements of contents as numbers.
func elements(m Meta, b []byte) func(i int) float64 {
	switch m.DType {
	case Float32:
		return numbers[float32](b)
	case Float64:
		return numbers[float64](b)
	case Int32:
		return numbers[int32](b)
	case Int64:
		return numbers[int64](b)
	case BFloat16:
		v := View[uint16](b)
		return func(i int) float64 { return bfloat16(v[i]) }
	case Int8Block:
		return blocks(m, b)
	}
	return numbers[uint8](b)
}

func numbers[T float32 | float64 | int32 | int64 | uint8](b []byte) func(i int) float64 {
	v := View[T](b)
	return func(i int) float64 { return float64(v[i]) }
}

func bfloat16(x uint16) float64 { return float64(math.Float32frombits(uint32(x) << 16)) }

// blocks reads elements of [Int8Block].
func blocks(m Meta, b []byte) func(i int) float64 {
	_, width := m.Rows()
	row := BlocksBytes(width)
	return func(i int) float64 {
		block := b[i/width*row+i%width/BlockElems*BlockBytes:]
		scale := uint16(block[0]) | uint16(block[1])<<8
		return bfloat16(scale) * float64(int8(block[2+i%width%BlockElems]))
	}
}
