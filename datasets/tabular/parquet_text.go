package tabular

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// textOf says how values of a type are written as texts; nil: they are none.
func textOf(t parquet.Type) func(dst []byte, v parquet.Value) []byte {
	var logical format.LogicalTypeValue
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	switch l := logical.(type) {
	case *format.DecimalType:
		return decimalText(int(l.Scale))
	case *format.DateType:
		return func(dst []byte, v parquet.Value) []byte {
			return time.Unix(int64(v.Int32())*24*60*60, 0).UTC().AppendFormat(dst, time.DateOnly)
		}
	case *format.TimestampType:
		unit := unitOf(l.Unit)
		return func(dst []byte, v parquet.Value) []byte { return timestampText(dst, v.Int64(), unit) }
	case *format.TimeType:
		unit := unitOf(l.Unit)
		return func(dst []byte, v parquet.Value) []byte {
			return time.Unix(0, intOf(v)*int64(unit)).UTC().AppendFormat(dst, "15:04:05.999999999")
		}
	case *format.IntType:
		if !l.IsSigned {
			return unsignedText
		}
	case *format.UUIDType:
		return func(dst []byte, v parquet.Value) []byte {
			b := v.ByteArray()
			return fmt.Appendf(dst, "%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
		}
	case *format.NullType: // of which every value is missing
		return func(dst []byte, _ parquet.Value) []byte { return dst }
	case *format.BsonType, *format.GeometryType, *format.GeographyType, *format.VariantType:
		return nil
	}
	return plainText(t.Kind())
}

// hasValues reports whether a type that textOf knows is of booleans or numbers.
func hasValues(t parquet.Type) bool {
	if l := t.LogicalType(); l != nil {
		switch l.Value.(type) {
		case *format.DecimalType, *format.IntType:
			return true
		case nil:
		default:
			return false
		}
	}
	switch t.Kind() {
	case parquet.Boolean, parquet.Int32, parquet.Int64, parquet.Float, parquet.Double:
		return true
	}
	return false
}

// plainText is textOf for a type that is known by its kind alone.
func plainText(kind parquet.Kind) func(dst []byte, v parquet.Value) []byte {
	switch kind {
	case parquet.Boolean:
		return func(dst []byte, v parquet.Value) []byte { return strconv.AppendBool(dst, v.Boolean()) }
	case parquet.Int32, parquet.Int64:
		return func(dst []byte, v parquet.Value) []byte { return strconv.AppendInt(dst, intOf(v), 10) }
	case parquet.Int96:
		return int96Text
	case parquet.Float:
		return func(dst []byte, v parquet.Value) []byte { return floatText(dst, float64(v.Float()), 32) }
	case parquet.Double:
		return func(dst []byte, v parquet.Value) []byte { return floatText(dst, v.Double(), 64) }
	case parquet.ByteArray:
		return func(dst []byte, v parquet.Value) []byte { return append(dst, v.ByteArray()...) }
	}
	return nil
}

// intOf is a number of 32 or 64 bits.
func intOf(v parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

func unsignedText(dst []byte, v parquet.Value) []byte {
	if v.Kind() == parquet.Int32 {
		return strconv.AppendUint(dst, uint64(uint32(v.Int32())), 10)
	}
	return strconv.AppendUint(dst, uint64(v.Int64()), 10)
}

// floatText writes a number. One that is none is empty: that is how other programs write missing
// values.
func floatText(dst []byte, v float64, bits int) []byte {
	if math.IsNaN(v) {
		return dst
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

// unitOf is the length of a unit of time.
func unitOf(u format.TimeUnit) time.Duration {
	if u.Value == nil {
		return time.Microsecond
	}
	return u.Value.Duration()
}

// timestampText writes a time, as UTC.
func timestampText(dst []byte, n int64, unit time.Duration) []byte {
	perSecond := int64(time.Second / unit)
	seconds, rest := n/perSecond, n%perSecond
	return time.Unix(seconds, rest*int64(unit)).UTC().AppendFormat(dst, "2006-01-02 15:04:05.999999999")
}

// int96Text writes a time in the form of old files: nanoseconds of a day, and the day since 4713 BC.
func int96Text(dst []byte, v parquet.Value) []byte {
	const epoch = 2440588 // the day 1970-01-01
	x := v.Int96()
	seconds := (int64(x[2]) - epoch) * 24 * 60 * 60
	return time.Unix(seconds, int64(x[1])<<32|int64(x[0])).UTC().AppendFormat(dst, "2006-01-02 15:04:05.999999999")
}

// decimalText writes numbers with so many digits behind the point.
func decimalText(scale int) func(dst []byte, v parquet.Value) []byte {
	return func(dst []byte, v parquet.Value) []byte {
		if kind := v.Kind(); kind == parquet.Int32 || kind == parquet.Int64 {
			return pointAt(dst, strconv.FormatInt(intOf(v), 10), scale)
		}
		b := v.ByteArray()
		n := new(big.Int).SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 { // two's complement
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		return pointAt(dst, n.String(), scale)
	}
}

// pointAt writes a whole number divided by a power of ten.
func pointAt(dst []byte, digits string, scale int) []byte {
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	if scale <= 0 || scale > 1<<10 {
		return append(dst, digits...)
	}
	for len(digits) <= scale {
		digits = "0" + digits
	}
	point := len(digits) - scale
	return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
}

// endOf reads the number of bytes that the end of a file has.
func endOf(tail []byte) int64 { return int64(binary.LittleEndian.Uint32(tail)) }
