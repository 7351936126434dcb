package images

import (
	"encoding/binary"
)

// turn is how stored pixels are looked at. Rows and columns change places first where across says so; rows are
// then in the other order where down says so, and columns where right does.
type turn struct{ across, down, right bool }

// turns are those of the EXIF orientations from 1 to 8.
var turns = [...]turn{
	{},
	{right: true},
	{down: true, right: true},
	{down: true},
	{across: true},
	{across: true, right: true},
	{across: true, down: true, right: true},
	{across: true, down: true},
}

// orientation reads the turn of EXIF data, which is a TIFF file without pixels. What cannot be read turns
// nothing.
func orientation(exif []byte) turn {
	if len(exif) < 8 {
		return turn{}
	}
	var order binary.ByteOrder
	switch string(exif[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return turn{}
	}
	at := int64(order.Uint32(exif[4:]))
	if at+2 > int64(len(exif)) {
		return turn{}
	}
	const tag, short, entryBytes = 0x0112, 3, 12
	for i := range int64(order.Uint16(exif[at:])) {
		from := at + 2 + i*entryBytes
		if from+entryBytes > int64(len(exif)) {
			return turn{}
		}
		e := exif[from:]
		if order.Uint16(e) != tag || order.Uint16(e[2:]) != short {
			continue
		}
		if v := int(order.Uint16(e[8:])); v >= 1 && v <= len(turns) {
			return turns[v-1]
		}
		return turn{}
	}
	return turn{}
}
