package datasets

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
)

// npy is a version 1 file with this header and data.
func npy(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestHostileNpy(t *testing.T) {
	if _, err := parseNpy(streamOf(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\n", 8))); err != nil {
		t.Fatal(err)
	}
	cases := map[string][]byte{
		"empty": nil, "magic": []byte("NUMPY....."), "version": []byte("\x93NUMPY\x04\x00\x00\x00"),
		"cut header":  []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{}"),
		"short v2":    []byte("\x93NUMPY\x02\x00\x00\x00"),
		"no dict":     npy("[]", 0),
		"unclosed":    npy("{'descr': '<f4'", 0),
		"missing":     npy("{'descr': '<f4', 'shape': (0,)}", 0),
		"unknown":     npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), 'x': 1}", 0),
		"repeated":    npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", 0),
		"object":      npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8),
		"order":       npy("{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", 4),
		"struct":      npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4),
		"bool":        npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", 4),
		"negative":    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4),
		"overflow":    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0),
		"too large":   npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 0),
		"short data":  npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7),
		"long data":   npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9),
		"trailing":    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)} x", 0),
		"long header": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}"+strings.Repeat(" ", 12000), 0),
	}
	for name, b := range cases {
		if _, err := parseNpy(streamOf(b)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Elements that are no numbers are refused as what they are.
func TestNpyElements(t *testing.T) {
	for descr, says := range map[string]string{
		"'|O'":                         "the elements are Python objects: save numbers, with astype",
		"[('a', '<f4'), ('b', '<i4')]": "the elements are structs: save one field",
		"'<U3'":                        `elements of type "<U3" are not read: save as float32 or int64`,
	} {
		_, err := parseNpy(streamOf(npy("{'descr': "+descr+", 'fortran_order': False, 'shape': (1,)}", 8)))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", descr, err)
		}
	}
}

func FuzzNpy(f *testing.F) {
	for _, name := range []string{"big", "v2", "v3", "fortran", "scalar"} {
		b, err := os.ReadFile("testdata/" + name + ".npy")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := parseNpy(streamOf(b)); err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		for _, float := range []bool{false, true} {
			a, err := parseNpy(streamOf(b))
			if err != nil {
				t.Fatal(err)
			}
			if c, _, err := a.column(t.Context(), "x", float); err == nil && (a.shape[0]*c.size > len(c.data) || len(c.data) > len(b)) {
				t.Fatalf("%d rows of %d bytes in %d", a.shape[0], c.size, len(c.data))
			}
		}
	})
}

// npzOf opens the array "input" of an archive.
func npzOf(b []byte) (*array, error) {
	return parseNpz(context.Background(), bytes.NewReader(b), int64(len(b)), "input")
}

func FuzzNpz(f *testing.F) {
	for _, name := range []string{"pair", "packed"} {
		b, err := os.ReadFile("testdata/" + name + ".npz")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := npzOf(b)
		if err == nil {
			_, _, err = a.column(t.Context(), "input", true)
		}
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
	})
}
