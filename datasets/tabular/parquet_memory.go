package tabular

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/berth-ml/berth/datasets/fault"
	"github.com/berth-ml/berth/datasets/files"
)

// columnRoom is the memory of reading a column beside its pages: 256 values ahead, 4 KiB of the
// file, and what is known of the column.
const columnRoom = 12 << 10

// pageRoom is the memory of a page.
type pageRoom struct {
	held    int64 // while its values are read
	passing int64 // only while it is unpacked
}

// checkGroup refuses a row group whose pages, one of each column that is read, take too much memory.
func (p *parquetFile) checkGroup(group int, used []int) error {
	meta := &p.file.Metadata().RowGroups[group]
	if meta.NumRows < 0 || meta.NumRows > p.file.NumRows() {
		return fmt.Errorf("row group %d has %d rows, the file %d", group, meta.NumRows, p.file.NumRows())
	}
	held, passing := int64(0), int64(0)
	for _, c := range used {
		leaf := p.columns[c].leaf
		if leaf < 0 || leaf >= len(meta.Columns) {
			return fmt.Errorf("row group %d lacks column %q", group, short(p.columns[c].name))
		}
		at := [2]int{group, c}
		takes, known := p.checked[at]
		if !known {
			var err error
			if takes, err = p.checkChunk(&meta.Columns[leaf], &p.columns[c]); err != nil {
				if errors.Is(err, fault.ErrFormat) {
					return fmt.Errorf("%w: %s, column %q: %w", fault.ErrFormat, p.path, short(p.columns[c].name), err)
				}
				return fmt.Errorf("column %q: %w", short(p.columns[c].name), err)
			}
			p.checked[at] = takes
		}
		held, passing = held+columnRoom+takes.held, max(passing, takes.passing)
		if held+passing > mostPages {
			return fmt.Errorf("%w: %s: a page of each column of row group %d takes more than %d MiB in all: write smaller pages, or leave columns out with data.ignore",
				fault.ErrFormat, p.path, group, mostPages>>20)
		}
	}
	return nil
}

// checkChunk walks over the pages of a column in a row group. It gives the memory of its largest
// page with the dictionary.
func (p *parquetFile) checkChunk(c *format.ColumnChunk, column *parquetColumn) (takes pageRoom, err error) {
	meta := &c.MetaData
	from := meta.DataPageOffset
	if meta.DictionaryPageOffset != 0 {
		from = meta.DictionaryPageOffset
	}
	if from < 4 || meta.TotalCompressedSize < 0 || from > p.size-meta.TotalCompressedSize {
		return takes, io.ErrUnexpectedEOF
	}
	if c.FilePath != "" {
		return takes, errors.New("it is in another file")
	}
	dictionary := int64(0)
	for at, end := from, from+meta.TotalCompressedSize; at < end; {
		h, head, err := p.pageHead(at, end)
		if err != nil {
			return takes, err
		}
		at += head
		size := int64(h.CompressedPageSize)
		if size < 0 || size > end-at || h.UncompressedPageSize < 0 {
			return takes, io.ErrUnexpectedEOF
		}
		room, err := p.checkPage(h, meta.Codec, column, at)
		if err != nil {
			return takes, err
		}
		if h.Type == format.DictionaryPage {
			dictionary = room.held
		} else {
			takes.held = max(takes.held, room.held)
			room.passing += room.held // a page is given back once the next one is there
		}
		takes.passing = max(takes.passing, room.passing)
		at += size
	}
	takes.held += dictionary
	return takes, nil
}

// checkPage refuses a page that unpacks to other than it says, or that has more values than it says.
// It gives the memory that it takes.
func (p *parquetFile) checkPage(h *format.PageHeader, codec format.CompressionCodec, column *parquetColumn, at int64) (room pageRoom, err error) {
	x, lists := pageValues{optional: column.optional, width: column.width}, int32(0) // bytes of the levels of lists, which come first
	switch h.Type {
	case format.DataPage:
		v := &h.DataPageHeader.V
		x.values, x.encoding = v.NumValues, v.Encoding
		if x.optional && v.DefinitionLevelEncoding != format.RLE {
			return room, unread(v.DefinitionLevelEncoding)
		}
	case format.DataPageV2:
		v := &h.DataPageHeaderV2.V
		x.values, x.encoding, x.second, x.levels = v.NumValues, v.Encoding, true, v.RepetitionLevelsByteLength+v.DefinitionLevelsByteLength
		if lists = v.RepetitionLevelsByteLength; lists < 0 || v.DefinitionLevelsByteLength < 0 || x.levels < 0 {
			return room, io.ErrUnexpectedEOF
		}
		if v.IsCompressed.Valid && !v.IsCompressed.V {
			codec = format.Uncompressed
		}
	case format.DictionaryPage:
		v := &h.DictionaryPageHeader.V
		x.values, x.encoding, x.optional = v.NumValues, v.Encoding, false
		if x.encoding == plainDictionary {
			x.encoding = format.Plain
		}
	}
	packed, size := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
	switch {
	case x.values < 0 || int64(x.levels) > min(packed, size):
		return room, io.ErrUnexpectedEOF
	case x.values > mostValues:
		return room, fmt.Errorf("%w: a page has %d values, and the limit is %d: write smaller pages", fault.ErrFormat, x.values, mostValues)
	case size > files.UnpackLimit(packed):
		return room, files.ErrUnpacksTooFar
	case packed+size > mostPages:
		return room, fmt.Errorf("%w: a page takes more than %d MiB: write smaller pages", fault.ErrFormat, mostPages>>20)
	}
	b := make([]byte, packed)
	if _, err := p.in.ReadAt(b, at); err != nil {
		return room, err
	}
	body, err := unpack(codec, b[x.levels:], size-int64(x.levels))
	if err == nil {
		err = x.check(b[lists:x.levels], body)
	}
	return pageRoom{held: x.held(size), passing: packed + size}, err
}

// held is the memory of the page's values once it is unpacked to so many bytes. Those are kept as
// they are, unless their encoding takes them apart.
func (x *pageValues) held(size int64) (held int64) {
	n := max(int64(x.values), x.counted)
	switch {
	case x.encoding == plainDictionary || x.encoding == format.RLEDictionary:
		held = pooled(4 * n) // the number of each value in the dictionary
	case x.width == 0: // texts, and where each begins
		held = pooled(size) + pooled(4*(n+1))
	default:
		held = pooled(max(size, n*x.width))
	}
	if x.optional {
		held += pooled(n)
	}
	return held
}

// pooled is the memory that the reading library takes for so many bytes.
func pooled(bytes int64) int64 {
	const least, doubles = 4 << 10, 256 << 10
	size := int64(least)
	for size < bytes {
		if size < doubles {
			size *= 2
		} else {
			size += size / 2
		}
	}
	return size
}

// widthOf is the memory of a value; 0: it is a text of any length.
func widthOf(t parquet.Type) int64 {
	switch t.Kind() {
	case parquet.Boolean:
		return 1
	case parquet.Int32, parquet.Float:
		return 4
	case parquet.Int64, parquet.Double:
		return 8
	case parquet.Int96:
		return 12
	case parquet.FixedLenByteArray:
		return int64(t.Length())
	}
	return 0
}
