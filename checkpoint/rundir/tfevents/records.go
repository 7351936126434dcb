package tfevents

import (
	"encoding/binary"
	"hash/crc32"
	"iter"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Scalar is a number with a name. TensorBoard groups names by their text before
// the first slash.
type Scalar struct {
	Tag   string
	Value float32
}

// The fields of the messages Event, Summary, Summary.Value and SessionLog that
// are written.
const (
	eventTime, eventStep, eventVersion, eventSummary, eventSession = 1, 2, 3, 5, 7

	summaryValue            = 1
	valueTag, valueSimple   = 1, 2
	sessionStatus, statusUp = 1, 1 // SessionLog.START
)

// version is the file_version of every event file that TensorBoard reads.
const version = "brain.Event:2"

// AppendVersion appends the first record of a file.
func AppendVersion(b []byte, at time.Time) []byte {
	return appendEvent(b, at, 0, func(b []byte) []byte {
		return protowire.AppendString(protowire.AppendTag(b, eventVersion, protowire.BytesType), version)
	})
}

// AppendStart appends the record by which TensorBoard forgets what earlier files
// of the folder have of step and those after it.
func AppendStart(b []byte, at time.Time, step int64) []byte {
	log := protowire.AppendVarint(protowire.AppendTag(nil, sessionStatus, protowire.VarintType), statusUp)
	return appendEvent(b, at, step, func(b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, eventSession, protowire.BytesType), log)
	})
}

// AppendScalars appends the record of a step's numbers.
func AppendScalars(b []byte, at time.Time, step int64, list []Scalar) []byte {
	var summary, value []byte
	for _, s := range list {
		value = protowire.AppendString(protowire.AppendTag(value[:0], valueTag, protowire.BytesType), s.Tag)
		value = protowire.AppendFixed32(protowire.AppendTag(value, valueSimple, protowire.Fixed32Type), math.Float32bits(s.Value))
		summary = protowire.AppendBytes(protowire.AppendTag(summary, summaryValue, protowire.BytesType), value)
	}
	return appendEvent(b, at, step, func(b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, eventSummary, protowire.BytesType), summary)
	})
}

// appendEvent appends a record of an Event, with what it holds.
func appendEvent(b []byte, at time.Time, step int64, what func([]byte) []byte) []byte {
	e := protowire.AppendTag(nil, eventTime, protowire.Fixed64Type)
	e = protowire.AppendFixed64(e, math.Float64bits(float64(at.UnixMicro())/1e6))
	if step != 0 {
		e = protowire.AppendVarint(protowire.AppendTag(e, eventStep, protowire.VarintType), uint64(step))
	}
	return appendRecord(b, what(e))
}

// A record is its length, the length's checksum, the data and the data's
// checksum.
const (
	lengthBytes, sumBytes = 8, 4
	headBytes             = lengthBytes + sumBytes
)

func appendRecord(b, data []byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, checksum(b[at:]))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, checksum(data))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is a CRC-32C, masked as records have it: a checksum of data that holds
// checksums would say little.
func checksum(data []byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// Whole is the number of bytes of the whole records at the beginning of b, which
// this package has made.
func Whole(b []byte) (n int) {
	for len(b)-n >= headBytes {
		size := recordBytes(b[n:])
		if size < headBytes || size > len(b)-n {
			break
		}
		n += size
	}
	return n
}

// Steps are the steps of the records in b with numbers, in order. This package has
// made b.
func Steps(b []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := Whole(b); n > 0; {
			size := recordBytes(b)
			if step, ok := stepOf(b[headBytes : size-sumBytes]); ok && !yield(step) {
				return
			}
			b, n = b[size:], n-size
		}
	}
}

// recordBytes is the length of the record at the beginning of b.
func recordBytes(b []byte) int { return headBytes + int(binary.LittleEndian.Uint64(b)) + sumBytes }

// stepOf is the step of an Event; ok is false if it has no numbers.
func stepOf(e []byte) (step int, ok bool) {
	for len(e) > 0 {
		field, kind, n := protowire.ConsumeTag(e)
		value := protowire.ConsumeFieldValue(field, kind, e[n:])
		switch field {
		case eventStep:
			v, _ := protowire.ConsumeVarint(e[n:])
			step = int(v)
		case eventSummary:
			ok = true
		}
		e = e[n+value:]
	}
	return step, ok
}
