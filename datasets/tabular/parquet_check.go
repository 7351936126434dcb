package tabular

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/berth-ml/berth/datasets/fault"
	"github.com/berth-ml/berth/datasets/files"
)

// plainDictionary is the encoding PLAIN_DICTIONARY, which older programs still write.
const plainDictionary = format.Encoding(2)

// The library that reads Parquet takes memory as a file says that it needs it, and unpacks without
// a bound. So what a file says is checked before the library reads it.

// Bounds of a file of Parquet.
const (
	mostEnd    = 64 << 20 // bytes of its end, which lists columns and row groups
	mostLists  = 1 << 30  // bytes of memory for the lists of its end
	mostHead   = 1 << 20  // bytes of what is above a page
	mostPages  = 1 << 30  // bytes of the pages, one of each column, that are in memory at a time
	mostValues = 1 << 24  // in a page
)

// checkEnd refuses a file whose end is not one.
func checkEnd(r io.ReaderAt, size int64) error {
	const frame = 12 // the mark at both ends, and the size of the end
	if size < frame {
		return io.ErrUnexpectedEOF
	}
	var tail [8]byte
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return err
	}
	switch mark := string(tail[4:]); {
	case mark == "PARE":
		return errors.New("it is encrypted")
	case mark != "PAR1":
		return errors.New("it does not end with PAR1")
	}
	n := endOf(tail[:])
	switch {
	case n > size-frame:
		return errors.New("its end is longer than the file")
	case n > mostEnd:
		return fmt.Errorf("its end has more than %d MiB", mostEnd>>20)
	}
	end := make([]byte, n)
	if _, err := r.ReadAt(end, size-8-n); err != nil {
		return err
	}
	_, err := measureThrift(end)
	return err
}

// errShort is about a structure that is cut off.
var errShort = errors.New("a list of its contents is cut off")

// measureThrift is the number of bytes of a structure that b begins with. What it says about its
// own sizes is true then.
func measureThrift(b []byte) (int, error) {
	w := thriftWalk{b: b}
	err := w.structure(0)
	return len(b) - len(w.b), err
}

// thriftWalk walks over a structure in Thrift's compact form.
type thriftWalk struct {
	b     []byte // the rest
	lists int64  // bytes of memory for what lists have
}

func (w *thriftWalk) skip(n uint64) error {
	if n > uint64(len(w.b)) {
		return errShort
	}
	w.b = w.b[n:]
	return nil
}

func (w *thriftWalk) number() (n uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		if len(w.b) == 0 {
			return 0, errShort
		}
		c := w.b[0]
		w.b = w.b[1:]
		if n |= uint64(c&0x7f) << shift; c < 0x80 {
			return n, nil
		}
	}
	return 0, errors.New("a number of its contents is too long")
}

// structure walks over fields up to their end.
func (w *thriftWalk) structure(depth int) error {
	for {
		if len(w.b) == 0 {
			return errShort
		}
		head := w.b[0]
		w.b = w.b[1:]
		if head == 0 {
			return nil
		}
		if head>>4 == 0 { // the field's number follows
			if _, err := w.number(); err != nil {
				return err
			}
		}
		if err := w.value(head&0xf, false, depth+1); err != nil {
			return err
		}
	}
}

// value walks over a value of a type; one in a list has its own truth, one in a field has it in
// its head.
func (w *thriftWalk) value(kind byte, listed bool, depth int) (err error) {
	const deepest = 32
	if depth > deepest {
		return errors.New("its contents are nested too deeply")
	}
	var n uint64
	switch kind {
	case 1, 2: // true, false
		if listed {
			return w.skip(1)
		}
		return nil
	case 3: // a byte
		return w.skip(1)
	case 4, 5, 6: // whole numbers
		_, err = w.number()
		return err
	case 7: // a float
		return w.skip(8)
	case 8: // bytes
		if n, err = w.number(); err != nil {
			return err
		}
		return w.skip(n)
	case 9, 10: // a list, a set
		return w.list(depth)
	case 11: // a map
		return w.pairs(depth)
	case 12:
		return w.structure(depth)
	}
	return fmt.Errorf("its contents have the unknown type %d", kind)
}

// list walks over the values of a list.
func (w *thriftWalk) list(depth int) error {
	if len(w.b) == 0 {
		return errShort
	}
	head := w.b[0]
	w.b = w.b[1:]
	n := uint64(head >> 4)
	if n == 15 {
		var err error
		if n, err = w.number(); err != nil {
			return err
		}
	}
	return w.values(n, depth, head&0xf)
}

// pairs walks over the values of a map.
func (w *thriftWalk) pairs(depth int) error {
	n, err := w.number()
	if n == 0 || err != nil {
		return err
	}
	if len(w.b) == 0 {
		return errShort
	}
	kinds := w.b[0]
	w.b = w.b[1:]
	return w.values(n, depth, kinds>>4, kinds&0xf)
}

// roomOf is the memory of a thing in a list. The largest that there are, the columns of row groups,
// are in a list of a list.
func roomOf(kind byte, depth int) int64 {
	const record, deepest = 12, 3
	switch {
	case kind != record:
		return 32
	case depth > deepest:
		return 64
	}
	return 700
}

// values walks n times over a value of each kind.
func (w *thriftWalk) values(n uint64, depth int, kinds ...byte) error {
	if n > uint64(len(w.b)) {
		return errShort
	}
	for _, kind := range kinds {
		if w.lists += int64(n) * roomOf(kind, depth); w.lists > mostLists {
			return fmt.Errorf("the lists of its contents take more than %d MiB", mostLists>>20)
		}
	}
	for range n {
		for _, kind := range kinds {
			if err := w.value(kind, true, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// pageHead reads what is above a page, and its length.
func (p *parquetFile) pageHead(at, end int64) (*format.PageHeader, int64, error) {
	for n := int64(1 << 9); ; n *= 8 {
		n = min(n, end-at, mostHead)
		b := make([]byte, n)
		if _, err := p.in.ReadAt(b, at); err != nil {
			return nil, 0, err
		}
		size, err := measureThrift(b)
		if err == errShort && n < min(end-at, mostHead) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		h := new(format.PageHeader)
		err = thrift.Unmarshal(&thrift.CompactProtocol{}, b[:size], h)
		return h, int64(size), err
	}
}

// pageValues is what a page says about its values.
type pageValues struct {
	values   int32
	encoding format.Encoding
	width    int64 // bytes of a value in memory; 0: a text
	optional bool  // values may be missing: levels say which are
	second   bool  // the page has the second version's form: its levels are outside of what is packed
	levels   int32 // bytes of them
	counted  int64 // values, as the longest of the page's runs have them
}

// unread is the error of values in a form that is not read.
func unread(e format.Encoding) error {
	return fmt.Errorf("%w: it is encoded by %v, which is not read: write it with a dictionary, or plainly", fault.ErrFormat, e)
}

// check refuses values that are more than the page says. levels and body are the page, unpacked.
func (x *pageValues) check(levels, body []byte) error {
	switch {
	case x.optional && !x.second:
		var err error
		if levels, body, err = withLength(body); err != nil {
			return err
		}
		fallthrough
	case x.optional:
		if err := x.checkRuns(levels, 1); err != nil {
			return err
		}
	}
	switch x.encoding {
	case format.Plain, format.ByteStreamSplit:
	case plainDictionary, format.RLEDictionary:
		if len(body) > 0 {
			return x.checkRuns(body[1:], uint(body[0]))
		}
	case format.RLE:
		runs, _, err := withLength(body)
		if err != nil {
			return err
		}
		return x.checkRuns(runs, 1)
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		return x.checkDeltas(body)
	default: // among them DELTA_BYTE_ARRAY, whose values may be much longer than the page
		return unread(x.encoding)
	}
	return nil
}

// withLength divides bytes that begin with a length.
func withLength(b []byte) (first, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, io.ErrUnexpectedEOF
	}
	n := endOf(b)
	if b = b[4:]; n > int64(len(b)) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	return b[:n], b[n:], nil
}

// checkRuns refuses runs of more values than the page has, but for those that fill the last ones up.
func (x *pageValues) checkRuns(b []byte, width uint) error {
	const filling = 1 << 10
	if width > 32 {
		return io.ErrUnexpectedEOF
	}
	most := 2*int64(x.values) + filling
	left := most
	for len(b) > 0 {
		head, n := binary.Uvarint(b)
		if n <= 0 {
			return io.ErrUnexpectedEOF
		}
		b = b[n:]
		count, bytes := head>>1, (uint64(width)+7)/8
		if head&1 != 0 { // groups of eight values
			count = min(count, 1<<40) // which is too many, too
			count, bytes = 8*count, uint64(width)*count
		}
		if count > uint64(left) {
			return fmt.Errorf("a page has more values than the %d that it says", x.values)
		}
		if bytes > uint64(len(b)) {
			return io.ErrUnexpectedEOF
		}
		left -= int64(count)
		b = b[bytes:]
	}
	x.counted = max(x.counted, most-left)
	return nil
}

// checkDeltas refuses differences of more values than the page has.
func (x *pageValues) checkDeltas(b []byte) error {
	var head [3]uint64 // values in a block, its parts, and all values
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return io.ErrUnexpectedEOF
		}
		head[i], b = v, b[n:]
	}
	if head[2] > uint64(x.values) {
		return fmt.Errorf("a page has more values than the %d that it says", x.values)
	}
	return nil
}

// unpack unpacks bytes, which must give n.
func unpack(codec format.CompressionCodec, b []byte, n int64) (out []byte, err error) {
	var r io.Reader
	switch codec {
	case format.Uncompressed:
		r = bytes.NewReader(b)
	case format.Snappy:
		size, err := s2.DecodedLen(b)
		switch {
		case err == nil && int64(size) > n:
			err = files.ErrUnpacksTooFar
		case err == nil && int64(size) < n:
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		return s2.Decode(nil, b)
	case format.Gzip:
		r, err = gzip.NewReader(bytes.NewReader(b))
	case format.Brotli:
		r = brotli.NewReader(bytes.NewReader(b))
	case format.Zstd:
		var d *zstd.Decoder
		d, err = zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err == nil {
			defer d.Close()
			r = d
		}
	default: // among them LZ4_RAW, of which the library loses pages that pack badly
		return nil, fmt.Errorf("%w: it is packed by %v, which is not read: pack it by snappy, gzip or zstd", fault.ErrFormat, codec)
	}
	if err != nil {
		return nil, err
	}
	out = make([]byte, n)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, err
	}
	switch more, err := io.CopyN(io.Discard, r, 1); {
	case more > 0:
		return nil, files.ErrUnpacksTooFar
	case err != io.EOF:
		return nil, err
	}
	return out, nil
}
