package command

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"
)

// convert FILE.csv writes FILE.jsonl and FILE.parquet with the same rows. Columns of numbers become
// numbers, those of True and False booleans, and empty fields have no value.
func convert(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || !strings.HasSuffix(args[0], ".csv") {
		ts.Fatalf("usage: convert FILE.csv")
	}
	name := strings.TrimSuffix(ts.MkAbs(args[0]), ".csv")
	in, err := os.ReadFile(name + ".csv")
	ts.Check(err)
	rows, err := csv.NewReader(bytes.NewReader(in)).ReadAll()
	ts.Check(err)
	header, rows := rows[0], rows[1:]
	fields := make([]reflect.StructField, len(header))
	for i, title := range header {
		kind := reflect.TypeFor[*string]()
		if all(rows, i, func(text string) bool { _, err := strconv.ParseFloat(text, 64); return err == nil }) {
			kind = reflect.TypeFor[*float64]()
		} else if all(rows, i, func(text string) bool { return text == "True" || text == "False" }) {
			kind = reflect.TypeFor[*bool]()
		}
		tag := reflect.StructTag(`parquet:"` + title + `,optional" json:"` + title + `,omitempty"`)
		fields[i] = reflect.StructField{Name: "C" + strconv.Itoa(i), Type: kind, Tag: tag}
	}
	kind := reflect.StructOf(fields)
	var lines, packed bytes.Buffer
	w := parquet.NewWriter(&packed, parquet.SchemaOf(reflect.New(kind).Interface()), parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(100))
	for _, row := range rows {
		v := reflect.New(kind)
		for i, text := range row {
			n, _ := strconv.ParseFloat(text, 64)
			yes := text == "True"
			if text != "" {
				v.Elem().Field(i).Set(map[reflect.Type]reflect.Value{
					reflect.TypeFor[*string](): reflect.ValueOf(&text), reflect.TypeFor[*float64](): reflect.ValueOf(&n), reflect.TypeFor[*bool](): reflect.ValueOf(&yes),
				}[fields[i].Type])
			}
		}
		b, err := json.Marshal(v.Interface())
		ts.Check(err)
		lines.Write(append(b, '\n'))
		ts.Check(w.Write(v.Interface()))
	}
	ts.Check(w.Close())
	ts.Check(os.WriteFile(name+".jsonl", lines.Bytes(), 0o644))
	ts.Check(os.WriteFile(name+".parquet", packed.Bytes(), 0o644))
}

// all reports whether f holds for all fields of a column but the empty ones.
func all(rows [][]string, column int, f func(text string) bool) bool {
	return !slices.ContainsFunc(rows, func(row []string) bool { return row[column] != "" && !f(row[column]) })
}
