package arch

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// The governor has the locks that its doc.go lists. Under its one lock nobody takes that again, and no callback is called.
func TestLocks_Governor(t *testing.T) {
	doc := testkit.Must(os.ReadFile("../../../governor/doc.go"))(t)
	c := governorCode(t)
	for _, breach := range c.breaches() {
		t.Error(breach)
	}
	for _, name := range c.unlocked() {
		if !unguarded[name] {
			t.Errorf("%s takes no lock", name)
		}
	}
	var listed, there []string
	for _, line := range regexp.MustCompile(`(?m)^//\t(\w+\.\w+)  `).FindAllStringSubmatch(string(doc), -1) {
		listed = append(listed, line[1])
	}
	for v, name := range c.fields {
		if v.Type().String() == "sync.Mutex" {
			there = append(there, name)
		}
	}
	slices.Sort(listed)
	slices.Sort(there)
	if !slices.Equal(listed, there) || len(there) == 0 {
		t.Errorf("doc.go lists the locks %v, and there are %v", listed, there)
	}
}

// unguarded are the exported methods that read only what never changes, or a channel.
var unguarded = map[string]bool{
	"Governor.Draining": true, "Governor.MoreShared": true, "Lease.Costing": true,
	"SharedPool.Name": true, "SharedSlots.Pool": true, "SharedSlots.TellAll": true, "SharedLimits.Owner": true, "SharedLimits.OfTenant": true, "SharedCall.Limits": true,
}

// Each breach of the rule is noticed.
func TestLocks_Breaches(t *testing.T) {
	const frame = `package p
import "sync"
type Observer interface{ Observe(int) }
type Governor struct { mu sync.Mutex; see Observer; done, also func() }
func (g *Governor) lock() int { g.mu.Lock(); return 0 }
func (g *Governor) look() { g.mu.Lock() }
func (g *Governor) unlock() { g.mu.Unlock() }
func (g *Governor) aside(do func()) { g.unlock(); do(); g.mu.Lock() }
func (g *Governor) after(do func()) { }
func (g *Governor) Door() { g.lock(); defer g.unlock(); g.below() }
func (g *Governor) below() {}
func (g *Governor) tell() { g.see.Observe(1) }
func (g *Governor) deep() { g.tell() }
func (g *Governor) each(yield func(int) bool) { g.tell() }
func (g *Governor) takes(int) { g.tell() }
func (g *Governor) hand(do func()) { do() }
func f(g *Governor) { `
	for body, want := range map[string]string{
		"g.lock(); g.below(); g.unlock(); g.tell()":                              "",
		"g.Door(); g.tell(); g.Door()":                                           "",
		"g.lock(); defer g.unlock(); g.aside(func() { g.tell() })":               "",
		"g.lock(); defer g.unlock(); g.after(func() { g.below() })":              "",
		"g.lock(); if g.see == nil { g.unlock(); return }; g.unlock(); g.tell()": "",
		"g.lock(); f := func() { g.below() }; f(); g.done(); g.unlock()":         "",
		"g.done = func() { g.lock(); g.unlock(); g.tell() }":                     "",

		"g.mu.Lock(); g.tell(); g.unlock()":                        "Observer.Observe is called under the lock",
		"g.done = func() { g.mu.Lock(); g.tell(); g.unlock() }":    "Observer.Observe is called under the lock",
		"g.done = func() { g.lock(); defer g.unlock(); g.tell() }": "Observer.Observe is called under the lock",
		"g.takes(g.lock()); g.unlock()":                            "Observer.Observe is called under the lock",
		"g.lock(); for range g.each { }; g.unlock()":               "Observer.Observe is called under the lock",
		"g.after(g.tell)": "Observer.Observe is called under the lock",
		"}; func (g *Governor) Asks(only ...func()) { g.lock(); defer g.unlock(); for _, some := range only { some() }": "func some is called under the lock",
		"g.lock(); g.also(); g.unlock()":                     "func also is called under the lock",
		"g.lock(); defer g.unlock(); g.hand(g.tell)":         "Observer.Observe is called under the lock",
		"g.lock(); g.tell(); g.unlock()":                     "Observer.Observe is called under the lock",
		"g.look(); defer g.unlock(); g.deep()":               "Observer.Observe is called under the lock",
		"g.lock(); defer g.unlock(); g.Door()":               "takes the lock that is held",
		"g.lock(); g.mu.Lock(); g.unlock()":                  "takes the lock that is held",
		"g.lock(); g.unlock(); g.after(func() { g.Door() })": "takes the lock that is held",
		"g.lock(); func() { g.tell() }(); g.unlock()":        "Observer.Observe is called under the lock",
	} {
		got := codeOf(t, map[string]string{"p.go": frame + body + " }"}).breaches()
		if want == "" && len(got) > 0 || want != "" && (len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), want)) {
			t.Errorf("%s\n\tgot %q, want %q", body, got, want)
		}
	}
}

// code is the code of a package with its types.
type code struct {
	fset   *token.FileSet
	info   *types.Info
	funcs  map[*types.Func]*ast.FuncDecl
	fields map[*types.Var]string
	// closures are the variables to which a function literal is assigned.
	closures map[types.Object]bool
}

// governorCode is that of the governor without its tests.
func governorCode(t *testing.T) *code {
	t.Helper()
	sources := map[string]string{}
	for _, name := range testkit.Must(filepath.Glob("../../../governor/*.go"))(t) {
		if !strings.HasSuffix(name, "_test.go") {
			sources[name] = string(testkit.Must(os.ReadFile(name))(t))
		}
	}
	return codeOf(t, sources)
}

func codeOf(t *testing.T, sources map[string]string) *code {
	t.Helper()
	c := &code{
		fset: token.NewFileSet(), funcs: map[*types.Func]*ast.FuncDecl{}, fields: map[*types.Var]string{}, closures: map[types.Object]bool{},
		info: &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}},
	}
	var files []*ast.File
	for name, text := range sources {
		files = append(files, testkit.Must(parser.ParseFile(c.fset, name, text, 0))(t))
	}
	conf := types.Config{Importer: exported(t, c.fset)}
	pkg := testkit.Must(conf.Check("governor", c.fset, files, c.info))(t)
	for _, name := range pkg.Scope().Names() {
		if s, ok := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct); ok {
			for f := range s.Fields() {
				c.fields[f] = name + "." + f.Name()
			}
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if x, ok := n.(*ast.AssignStmt); ok {
				for i, to := range x.Lhs {
					name, isName := to.(*ast.Ident)
					if _, isLit := x.Rhs[min(i, len(x.Rhs)-1)].(*ast.FuncLit); isLit && isName {
						c.closures[c.info.ObjectOf(name)] = true
					}
				}
			}
			return true
		})
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				c.funcs[c.info.Defs[d.Name].(*types.Func)] = d
			}
		}
	}
	return c
}

var exports = map[string]string{}

// exported imports packages by what the compiler has left of them.
func exported(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	if len(exports) == 0 {
		cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./governor")
		cmd.Dir = "../../.."
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			path, file, _ := strings.Cut(lines.Text(), " ")
			exports[path] = file
		}
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}

// breaches are the places under the lock at which it is taken again, or a callback is called. Under it is what a function calls between
// lock, or look, and its last unlock; what a timer calls (after); and what these call in turn, but for what they do aside.
func (c *code) breaches() (list []string) {
	under := map[*types.Func]bool{}
	var queue []*types.Func
	check := func(n ast.Node, from, to token.Pos) {
		c.calls(n, func(x ast.Node, fn *types.Func, name string) {
			if x.End() <= from || x.Pos() >= to {
				return
			}
			what := ""
			switch {
			case strings.HasPrefix(name, "func "):
				if !known[name] {
					what = name + " is called under the lock"
				}
			case begins[name] || name == "Governor.applying.Lock":
				what = "it takes the lock that is held"
			case name == "Observer.Observe" || name == "Journal.Append" || name == "Interrupter.Interrupt":
				what = name + " is called under the lock"
			case c.funcs[fn] != nil && !under[fn] && !shell[fn.Name()]:
				under[fn] = true
				queue = append(queue, fn)
			}
			if what != "" {
				list = append(list, c.fset.Position(x.Pos()).String()+": "+what)
			}
		})
	}
	for fn, d := range c.funcs {
		if shell[fn.Name()] {
			continue
		}
		if from, to := c.held(d.Body); from > 0 {
			check(d.Body, from, to)
		}
		ast.Inspect(d.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				if from, to := c.held(n.Body); c.takes(n) {
					check(n.Body, from, to)
				}
			case *ast.CallExpr:
				for _, arg := range n.Args {
					if timer := c.funcOf(arg); timer != nil && c.funcs[timer] != nil && c.nameOf(n) == "after" && !under[timer] {
						under[timer] = true
						queue = append(queue, timer)
					}
					if timer, ok := arg.(*ast.FuncLit); ok && c.nameOf(n) == "after" {
						check(timer.Body, timer.Pos(), timer.End())
					}
				}
			}
			return true
		})
	}
	for len(queue) > 0 {
		d := c.funcs[queue[0]]
		queue = queue[1:]
		check(d.Body, token.NoPos, d.End()+1)
	}
	return list
}

// known are the functions that are called under the lock though others made them, as their documentation says, or though they are in a field:
// timers on the timeline.
var known = map[string]bool{"func done": true, "func f": true}

// unlocked are the exported methods of what leads to a governor that take no lock.
func (c *code) unlocked() (list []string) {
	takes := map[*types.Func]bool{}
	for grown := true; grown; {
		grown = false
		for fn, d := range c.funcs {
			if takes[fn] {
				continue
			}
			ast.Inspect(d.Body, func(n ast.Node) bool {
				if x, ok := n.(*ast.CallExpr); ok && !takes[fn] {
					name := c.nameOf(x)
					takes[fn] = begins[name] || takes[c.funcOf(x.Fun)]
					grown = grown || takes[fn]
				}
				return true
			})
		}
	}
	for fn := range c.funcs {
		of := ""
		if recv := fn.Signature().Recv(); recv != nil {
			of = strings.TrimPrefix(types.TypeString(recv.Type(), func(*types.Package) string { return "" }), "*")
		}
		leads := slices.Contains([]string{"Governor", "Lease", "SharedPool", "SharedSlots", "SharedLimits", "SharedCall"}, of)
		if leads && fn.Exported() && !takes[fn] {
			list = append(list, of+"."+fn.Name())
		}
	}
	return list
}

// shell are the functions that are the lock; they are no code under it.
var shell = map[string]bool{"lock": true, "look": true, "unlock": true, "aside": true, "after": true, "breathe": true, "blink": true}

// held is the part of a function that is under the lock.
func (c *code) held(body *ast.BlockStmt) (from, to token.Pos) {
	deferred := map[ast.Node]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		if x, ok := n.(*ast.DeferStmt); ok {
			deferred[x.Call] = true
		}
		return true
	})
	c.calls(body, func(x ast.Node, _ *types.Func, name string) {
		switch {
		case from == 0 && begins[name]:
			from = x.End()
		case name == "unlock" && deferred[x]:
			to = body.End()
		case name == "unlock":
			to = max(to, x.Pos())
		}
	})
	return from, to
}

// begins are the functions by which a hold begins.
var begins = map[string]bool{"lock": true, "look": true, "Governor.mu.Lock": true}

// calls are those in a node, but for what is done aside or by timers. A function that is named, but not called, is handed to somebody who does.
func (c *code) calls(n ast.Node, yield func(x ast.Node, fn *types.Func, name string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncLit:
			return !c.takes(x) // or it is a function of its own
		case *ast.Ident:
			if fn := c.funcOf(x); fn != nil {
				yield(x, fn, "")
			}
		case *ast.CallExpr:
			name := c.nameOf(x)
			if name == "aside" || name == "after" || name == "breathe" || name == "blink" || strings.HasSuffix(name, "AfterFunc") {
				return false
			}
			yield(x, c.funcOf(x.Fun), name)
			return name != "unlock"
		}
		return true
	})
}

// takes reports whether a function literal begins by taking the lock.
func (c *code) takes(lit *ast.FuncLit) bool {
	if len(lit.Body.List) == 0 {
		return false
	}
	var first ast.Expr
	switch s := lit.Body.List[0].(type) {
	case *ast.ExprStmt:
		first = s.X
	case *ast.AssignStmt:
		first = s.Rhs[0]
	}
	x, ok := first.(*ast.CallExpr)
	return ok && begins[c.nameOf(x)]
}

// nameOf is the name of what is called: of an interface's method with that of the interface, of a mutex's with that of its field, of a
// function that was handed over with func before it.
func (c *code) nameOf(x *ast.CallExpr) string {
	fn := c.funcOf(x.Fun)
	if fn == nil {
		if v := c.handed(x.Fun); v != nil {
			return "func " + v.Name()
		}
		return ""
	}
	recv := fn.Signature().Recv()
	if recv == nil || fn.Pkg() == nil {
		return ""
	}
	of := recv.Type()
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem()
	}
	named, ok := of.(*types.Named)
	if ok && types.IsInterface(of) {
		return named.Obj().Name() + "." + fn.Name()
	}
	if sel, isSel := x.Fun.(*ast.SelectorExpr); ok && isSel && named.Obj().Name() == "Mutex" {
		if field, ok := ast.Unparen(sel.X).(*ast.SelectorExpr); ok {
			v, _ := c.info.Uses[field.Sel].(*types.Var)
			return c.fields[v] + "." + fn.Name()
		}
	}
	if ok && named.Obj().Name() == "Governor" {
		return fn.Name()
	}
	return ""
}

// handed is the variable with a function that an expression names, or nil: a field, a parameter of what is exported, or what was found in
// one. Other functions are written in this package, and checked there.
func (c *code) handed(x ast.Expr) *types.Var {
	v, _ := c.used(x).(*types.Var)
	if v == nil || c.closures[v] || v.Kind() == types.PackageVar {
		return nil
	}
	if v.Kind() != types.ParamVar {
		return v
	}
	for fn := range c.funcs {
		for p := range fn.Signature().Params().Variables() {
			if p == v && fn.Exported() {
				return v
			}
		}
	}
	return nil
}

// funcOf is the function or method that an expression names, or nil.
func (c *code) funcOf(x ast.Expr) *types.Func {
	fn, _ := c.used(x).(*types.Func)
	return fn
}

func (c *code) used(x ast.Expr) types.Object {
	switch f := ast.Unparen(x).(type) {
	case *ast.Ident:
		return c.info.Uses[f]
	case *ast.SelectorExpr:
		return c.info.Uses[f.Sel]
	}
	return nil
}

// shellFiles are the files of the governor that have to do with locks, goroutines and the machine's clock.
var shellFiles = []string{"acquire.go", "clock.go", "eventqueue.go", "governor.go", "interrupt.go", "limits.go", "lock.go", "measure.go", "request.go"}

// What decides has no lock, context, goroutine or clock of its own: only the shell has.
func TestLocks_WhatDecidesIsPure(t *testing.T) {
	c := governorCode(t)
	var impure []string
	add := func(at token.Pos) { impure = append(impure, filepath.Base(c.fset.Position(at).Filename)) }
	for id, used := range c.info.Uses {
		switch used := used.(type) {
		case *types.PkgName:
			if slices.Contains([]string{"context", "runtime", "sync", "sync/atomic"}, used.Imported().Path()) {
				add(id.Pos())
			}
		case *types.Func:
			ticks := []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick"}
			if slices.Contains(ticks, used.FullName()) {
				add(id.Pos())
			}
		}
	}
	for _, d := range c.funcs {
		ast.Inspect(d, func(n ast.Node) bool {
			if n, ok := n.(*ast.GoStmt); ok {
				add(n.Pos())
			}
			return true
		})
	}
	slices.Sort(impure)
	if got := slices.Compact(impure); !slices.Equal(got, shellFiles) {
		t.Errorf("locks, contexts, goroutines or the machine's clock are used in %v, and the shell is %v", got, shellFiles)
	}
}
