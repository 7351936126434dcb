// vet is go vet, read from source: all packages with their tests, for the system that GOOS and GOARCH name, without compiling
// what they import. It looks as well for functions without a body, which a compiler would refuse.
package main

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() { multichecker.Main(append(vet.Suite, bodies)...) }

var bodies = &analysis.Analyzer{Name: "bodies", Doc: "report functions that have no body, in packages without assembly", Run: findBodies}

func findBodies(pass *analysis.Pass) (any, error) {
	if len(pass.OtherFiles) > 0 {
		return nil, nil // assembly: asmdecl compares it
	}
	for _, file := range pass.Files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body == nil {
				pass.Reportf(f.Pos(), "%s has no body", f.Name.Name)
			}
		}
	}
	return nil, nil
}
