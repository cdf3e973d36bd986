package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// A refusal is made, and its fields are set, in governor/rejection*.go alone, so that a new datum of
// refusals is filled in there and nowhere is forgotten.
func TestRefusals_AreMadeByConstructors(t *testing.T) {
	c := newLockCheck(t, nil, governorSources(t))
	made := 0
	report := func(at token.Pos, what string) {
		where := c.fset.Position(at)
		if strings.HasPrefix(filepath.Base(where.Filename), "rejection") {
			made++
			return
		}
		t.Errorf("%s: %s: let a constructor or method in governor/rejection*.go do that", where, what)
	}
	for _, f := range c.funcs {
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CompositeLit:
				if tv := c.info.Types[x]; strings.HasSuffix(types.TypeString(tv.Type, nil), ".Rejection") {
					report(x.Pos(), "a Rejection is made")
				}
			case *ast.AssignStmt:
				for _, left := range x.Lhs {
					if sel, ok := left.(*ast.SelectorExpr); ok {
						v, _ := c.info.Uses[sel.Sel].(*types.Var)
						if field := c.fields[v]; strings.HasPrefix(field, "Rejection.") {
							report(x.Pos(), field+" is set")
						}
					}
				}
			}
			return true
		})
	}
	if made < 20 {
		t.Errorf("only %d places are found that make a Rejection or set its fields", made)
	}
}
