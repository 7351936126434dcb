package ops_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/golden"
)

const opsPage = "../../docs/ops.md"

// pageHead begins the page of the ops.
const pageHead = `# The ops

Every op of package [ops](../engine/ops), but for the gradients of others. Each is a Go value: ` + "`c.One(ops.Unary{Fn: \"relu\"}, x)`" + `
op by op, ` + "`b.One(ops.Unary{Fn: \"relu\"}, x)`" + ` in a layer or a compiled function. Most have a function that is shorter, such as
` + "`ops.Relu(b, x)`" + `: ` + "`go doc ./engine/ops`" + ` lists them. f32 are numbers, i32 are ids and counts, and dimensions are in brackets: [B,C].

An op that is not here is made of these ([a composite](extending.md#an-op-made-of-others): the larger of two is
` + "`ops.SelectOf(b, ops.Less(b, x, y), y, x)`" + `), or is [an op of the program's own](extending.md#an-op).

<!-- Written by: go test ./engine/ops -run OpsPage -update -->
`

// opRow is a Go type of the page, with its kinds.
type opRow struct {
	kinds, types []string
	gradient     bool
}

// TestOpsPage: docs/ops.md has every op with its fields, kinds, types and doc comment.
func TestOpsPage(t *testing.T) {
	rows := map[reflect.Type]*opRow{}
	for _, kind := range ops.Kinds() {
		draw, ok := draws[kind]
		if !ok { // the gradient of another
			continue
		}
		s := rapid.Custom(draw).Example(0)
		of := reflect.TypeOf(s.op)
		if rows[of] == nil {
			rows[of] = &opRow{gradient: len(s.diff) > 0}
		}
		row := rows[of]
		row.kinds = append(row.kinds, "`"+kind+"`")
		for _, name := range ops.KernelNames(kind) {
			if types := "`" + strings.TrimPrefix(name, kind) + "`"; !slices.Contains(row.types, types) {
				row.types = append(row.types, types)
			}
		}
	}
	docs := opDocs(t)
	var with, without []string
	for of, row := range rows {
		line := fmt.Sprintf("| `%s` | %s | %s | %s |\n", goForm(of), strings.Join(row.kinds, ", "), strings.Join(row.types, ", "), docs[of.Name()])
		if row.gradient {
			with = append(with, line)
		} else {
			without = append(without, line)
		}
	}
	slices.Sort(with)
	slices.Sort(without)
	const table = "\n| Go | kinds | types | computes |\n|---|---|---|---|\n"
	golden.Check(t, opsPage, pageHead+"\n## With a gradient\n"+table+strings.Join(with, "")+
		"\n## Without a gradient\n\nNothing flows back through these. The ops that update weights are among them, and those of `trainer generate`.\n"+table+strings.Join(without, ""))
}

// goForm is a type with its fields: ops.Affine{Scale, Shift float64}.
func goForm(of reflect.Type) string {
	var fields []string
	for i := range of.NumField() {
		f := of.Field(i)
		field := f.Name
		if i+1 == of.NumField() || of.Field(i+1).Type != f.Type {
			field += " " + f.Type.String()
		}
		fields = append(fields, field)
	}
	return fmt.Sprintf("%v{%s}", of, strings.Join(fields, ", "))
}

// opDocs are the doc comments of the package's types, as text of a table.
func opDocs(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			text := strings.Join(strings.Fields(g.Doc.Text()), " ")
			docs[g.Specs[0].(*ast.TypeSpec).Name.Name] = strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;", "[", `\[`, "]", `\]`).Replace(text)
		}
	}
	return docs
}
