package tabular

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/fault"
)

// A key is a column. What an object lacks and what is null is missing; other values are their text.
func TestJSON(t *testing.T) {
	const text = `{"age": 41, "plan": "gold", "yes": true}

 {"plan":"a \"b\"\u00e9\n", "age": -1.5e+3 , "more": ""}` + "\t\r\n" + `{"age": null}
{}
`
	const want = "age|plan|yes|more\n41|gold|true|-\n-1.5e+3|a \"b\"é\n|-|\n-|-|-|-\n-|-|-|-\n"
	dir := folder(t, map[string]string{"x.jsonl": text})
	if got, err := rowsOf(t.Context(), filepath.Join(dir, "x.jsonl"), Options{}, nil); got != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// Booleans and numbers are told from texts, and the first key that the first object lacks is known.
func TestJSONValues(t *testing.T) {
	dir := folder(t, map[string]string{"x.jsonl": `{"a": 1, "b": "1"}` + "\n" + `{"late": true, "b": false, "a": "x", "later": null}` + "\n", "y.jsonl": `{"a": 1, "b": 2}` + "\n" + `{"b": 3}`})
	table, err := Open(t.Context(), filepath.Join(dir, "x.jsonl"), Options{})
	if err != nil || table.Late != "late" {
		t.Fatalf("%+v, %v", table, err)
	}
	got := ""
	if err := table.Each(t.Context(), nil, func(row *Row) error { got += fmt.Sprint(row.Values); return nil }); err != nil || got != "[true false false false][false true true false]" {
		t.Errorf("%s, %v", got, err)
	}
	if table, err = Open(t.Context(), filepath.Join(dir, "y.jsonl"), Options{}); err != nil || table.Late != "" {
		t.Errorf("%+v, %v", table, err)
	}
}

// A list or an object is refused by its name and place where it is read, and skipped elsewhere.
func TestNestedJSON(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"x.jsonl": `{"a": 1}` + "\n" + `{"a": 2, "to": {"x": ["}", "\"]"]}, "b": 3}` + "\n"}), "x.jsonl")
	table, err := Open(t.Context(), path, Options{})
	if err != nil || !slices.Equal(table.Nested, []bool{false, true, false}) {
		t.Fatalf("%v, %v", table, err)
	}
	if got, err := rowsOf(t.Context(), path, Options{}, []bool{true, false, true}); got != "a|to|b\n1|-|-\n2|-|3\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	_, err = rowsOf(t.Context(), path, Options{}, nil)
	if !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), `x.jsonl:2:16: the value of "to" is a list or an object: write its values`) {
		t.Error(err)
	}
}

// What is no JSON line is refused where it is.
func TestBadJSON(t *testing.T) {
	for text, says := range map[string]string{
		`{"a": 1`:                  "x.jsonl:1:8: the object does not end on this line",
		`{"a": 1} x`:               "x.jsonl:1:10: there is text behind the object",
		`{"a": 1}{"a": 2}`:         "x.jsonl:1:9: there is text behind the object",
		`{"a": 01}`:                `x.jsonl:1:7: "01" is not a JSON value`,
		`{"a": NaN}`:               `x.jsonl:1:7: "NaN" is not a JSON value`,
		`{"a": }`:                  `x.jsonl:1:7: "" is not a JSON value`,
		`{"a" 1}`:                  "x.jsonl:1:6: expected a colon",
		`{"a": 1 "b": 2}`:          "x.jsonl:1:9: expected a comma",
		`{"a": 1,}`:                "x.jsonl:1:9: expected a key in quotes",
		`{a: 1}`:                   "x.jsonl:1:2: expected a key in quotes",
		`{"a": 1, "a": 2}`:         `x.jsonl:1:10: the key "a" comes twice`,
		`{"a": "x}`:                "x.jsonl:1:7: the quote that opens here is not closed",
		`{"a": "\x"}`:              "has an escape that JSON lacks",
		"{\"a\": \"\xff\"}":        "is not UTF-8",
		"{\"a\": \"\t\"}":          "x.jsonl:1:8: the byte 0x09 may not be in a text",
		`{"a": [1, 2}`:             "x.jsonl:1:7: this is no list or object of JSON",
		`{"a": [1, 2`:              "the object does not end on this line",
		"{\"a\": 1}\n2":            "x.jsonl:2:1: expected a JSON object",
		`[{"a": 1}]`:               "x.jsonl:1:1: this is a list",
		`{}`:                       "objects without keys",
		"\n \n":                    "is empty",
		`{"a"`:                     "x.jsonl:1:5: the object does not end on this line",
		`{"a":`:                    "x.jsonl:1:6: the object does not end on this line",
		`{`:                        "x.jsonl:1:2: the object does not end on this line",
		"{\"a\": 1}\r{\"a\": 2}\r": "ends its lines with a carriage return alone",
	} {
		_, err := rowsOf(t.Context(), filepath.Join(folder(t, map[string]string{"x.jsonl": text}), "x.jsonl"), Options{}, nil)
		if err == nil || !strings.Contains(err.Error(), says) || !errors.Is(err, fault.ErrFormat) && !errors.Is(err, fault.ErrTooFew) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// Keys in very great number, or very long ones, are refused early.
func TestManyKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("a million keys")
	}
	var wide strings.Builder
	for i := range mostColumns + 1 {
		fmt.Fprintf(&wide, `,"%d":1`, i)
	}
	long := strings.Repeat("k", 20<<20)
	var values strings.Builder
	for i := range manyColumns + 1 {
		fmt.Fprintf(&values, "{\"%d\":1}\n", i)
	}
	for text, says := range map[string]string{
		values.String():               fmt.Sprintf("x.jsonl:%d:1: the objects have %d different keys so far, and 1 each on average", manyColumns+1, manyColumns+1),
		"{" + wide.String()[1:] + "}": fmt.Sprintf(`the key "%d" is one more than %d`, mostColumns, mostColumns),
		`{"1` + long + "\":1}\n{\"2" + long + "\":1}\n{\"3" + long + "\":1}\n{\"4" + long + `":1}`: "x.jsonl:4:2: the keys take more than 64 MiB",
	} {
		_, err := Open(t.Context(), filepath.Join(folder(t, map[string]string{"x.jsonl": text}), "x.jsonl"), Options{})
		if !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), says) || len(err.Error()) > 400 {
			t.Errorf("%.300v, want %q", err, says)
		}
	}
}

// FuzzJSON: an object is read exactly where encoding/json reads one without lists and objects in
// it, and to the same values.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{`{"a": 1, "b": "x", "c": true, "d": null}`, `{"a": "\ud83d\ude00\/\b"}`, `{"": 0}`, `{"a":[1,{"b":"]"}]}`, `{"a":-0.5E-7}`, `{"a":-0.5E555555557}`, "{\"a\":\"é\"}\t", `{"a":1,"a":2}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\n\r\x00") || strings.HasPrefix(line, "\ufeff") || strings.TrimSpace(line) == "" || strings.HasPrefix(line, "\xff\xfe") || strings.HasPrefix(line, "\xfe\xff") {
			return
		}
		k := &keys{column: map[string]int{}, grow: true}
		find, err := newJSONRows(strings.NewReader(line), io.NopCloser(nil), "x", 0, k, []bool{})
		if err != nil {
			t.Fatal(err)
		}
		found := find.next(&Row{})
		var want map[string]json.RawMessage
		valid := json.Unmarshal([]byte(line), &want) == nil && want != nil
		if found == nil && !valid {
			t.Fatalf("%q is read, and is no object", line)
		}
		if !valid || strings.ContainsRune(line, '\ufffd') || strings.ToValidUTF8(line, "") != line {
			return
		}
		if found != nil {
			if !strings.Contains(found.Error(), "comes twice") {
				t.Fatalf("%q: %v", line, found)
			}
			return
		}
		read, err := newJSONRows(strings.NewReader(line), io.NopCloser(nil), "x", 0, &keys{names: k.names, column: k.column}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var row Row
		if err := read.next(&row); err != nil {
			if !slices.Contains(k.nested, true) {
				t.Fatalf("%q: %v", line, err)
			}
			return
		}
		if len(row.Fields) != len(want) {
			t.Fatalf("%q: %d columns, want %d", line, len(row.Fields), len(want))
		}
		for i, name := range k.names {
			var value any
			decoder := json.NewDecoder(bytes.NewReader(want[name]))
			decoder.UseNumber() // a number too large for a float64 is a number all the same
			if err := decoder.Decode(&value); err != nil {
				t.Fatal(err)
			}
			text, isText := value.(string)
			switch {
			case value == nil && row.Fields[i] == nil:
			case isText && string(row.Fields[i]) == text:
			case !isText && value != nil && string(row.Fields[i]) == string(want[name]):
			default:
				t.Fatalf("%q: %q is %q, want %v", line, name, row.Fields[i], value)
			}
		}
	})
}
