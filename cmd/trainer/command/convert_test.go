package command

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"
)

// convert FILE.csv writes FILE.jsonl and FILE.parquet with the same rows. Columns of numbers become
// numbers, and empty fields have no value.
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
		kind := reflect.TypeFor[*float64]()
		for _, row := range rows {
			if _, err := strconv.ParseFloat(row[i], 64); err != nil && row[i] != "" {
				kind = reflect.TypeFor[*string]()
			}
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
			if n, err := strconv.ParseFloat(text, 64); text != "" && fields[i].Type == reflect.TypeFor[*string]() {
				v.Elem().Field(i).Set(reflect.ValueOf(&text))
			} else if err == nil {
				v.Elem().Field(i).Set(reflect.ValueOf(&n))
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
