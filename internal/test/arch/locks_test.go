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

// The locks of the governor are taken in the order that its doc.go lists, and none is held while a
// callback is called.
func TestLocks_Governor(t *testing.T) {
	doc := testkit.Must(os.ReadFile("../../../governor/doc.go"))(t)
	sources := governorSources(t)
	order := lockOrder(string(doc))
	if len(order) < 8 {
		t.Fatalf("doc.go lists only the locks %v", order)
	}
	c := newLockCheck(t, order, sources)
	for _, breach := range c.run() {
		t.Error(breach)
	}
	for lock := range order {
		if !c.taken[lock] {
			t.Errorf("doc.go lists %s, which nothing takes", lock)
		}
	}
}

// governorSources are the governor's files without its tests.
func governorSources(t *testing.T) map[string]string {
	t.Helper()
	names := testkit.Must(filepath.Glob("../../../governor/*.go"))(t)
	sources := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text := testkit.Must(os.ReadFile(name))(t)
		sources[name] = string(text)
	}
	return sources
}

// Each breach of the order is noticed.
func TestLocks_Breaches(t *testing.T) {
	const frame = `package p
import ("context"; "sync")
type Observer interface{ Observe(int) }
type Journal interface{ Append(int) error }
type pool struct { mu sync.Mutex; see Observer; log Journal; stop context.CancelCauseFunc }
type view struct { *pool }
type quota struct { mu sync.Mutex }
type leaf struct { mu sync.Mutex }
func (l *leaf) note() { l.mu.Lock(); defer l.mu.Unlock() }
func (p *pool) tell() { p.see.Observe(1) }
func (p *pool) tellLocked() { p.tell() }
func (p *pool) pumpLocked() {}
func (p *pool) wakeAndUnlock() { p.mu.Unlock(); p.tell() }
func (p *pool) pumpAndUnlock() { p.pumpLocked(); p.wakeAndUnlock() }
func f(p *pool, v view, q *quota, l *leaf) { `
	order := lockOrder("//\tpool.mu, quota.mu   books\n//\tleaf.mu   counts\n")
	for body, want := range map[string]string{
		// What is fine.
		"p.mu.Lock(); l.note(); p.mu.Unlock(); p.tell()":                                  "",
		"p.mu.Lock(); p.pumpAndUnlock(); q.mu.Lock(); q.mu.Unlock()":                      "",
		"p.mu.Lock(); if p.see == nil { p.mu.Unlock(); p.tell(); return }; p.mu.Unlock()": "",
		"for range 2 { p.mu.Lock(); p.mu.Unlock() }":                                      "",
		"for range 2 { p.mu.Lock() }; p.pumpLocked(); p.mu.Unlock()":                      "",
		// What is not.
		"p.mu.Lock(); p.tellLocked(); p.mu.Unlock()":                            "Observer.Observe is called under pool.mu",
		"v.mu.Lock(); defer v.mu.Unlock(); v.see.Observe(1)":                    "Observer.Observe is called under pool.mu",
		"p.mu.Lock(); defer p.mu.Unlock(); _ = p.log.Append(1)":                 "Journal.Append is called under pool.mu",
		"p.mu.Lock(); p.stop(nil); p.mu.Unlock()":                               "context.CancelCauseFunc is called under pool.mu",
		"p.mu.Lock(); func() { p.tell() }(); p.mu.Unlock()":                     "Observer.Observe is called under pool.mu",
		"p.mu.Lock(); if p.see == nil { p.tell() }; p.mu.Unlock()":              "Observer.Observe is called under pool.mu",
		"p.mu.Lock(); q.mu.Lock(); q.mu.Unlock(); p.mu.Unlock()":                "quota.mu is taken under pool.mu",
		"l.mu.Lock(); defer l.mu.Unlock(); q.mu.Lock(); q.mu.Unlock()":          "quota.mu is taken under leaf.mu",
		"p.mu.Lock(); v.mu.Lock(); v.mu.Unlock(); p.mu.Unlock()":                "pool.mu is taken under pool.mu",
		"p.mu.Lock(); p.mu.Unlock(); p.mu.Lock(); p.mu.Unlock()":                "pool.mu is given back and taken again",
		"p.mu.Lock(); p.pumpAndUnlock(); p.mu.Lock(); p.mu.Unlock()":            "pool.mu is given back and taken again",
		"var mu struct{ other sync.Mutex }; mu.other.Lock(); mu.other.Unlock()": "other is not in the list of locks",
		"p.mu.Lock(); switch { case p.see == nil: p.tell() }; p.mu.Unlock()":    "Observer.Observe is called under pool.mu",
		"p.mu.Unlock(); p.mu.Lock()":                                            "pool.mu is given back and taken again",
	} {
		got := newLockCheck(t, order, map[string]string{"p.go": frame + body + " }"}).run()
		if want == "" && len(got) > 0 || want != "" && (len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), want)) {
			t.Errorf("%s\n\tgot %q, want %q", body, got, want)
		}
	}
}

var lockLine = regexp.MustCompile(`(?m)^//\t((?:\w+\.\w+)(?:, \w+\.\w+)*)  `)

// lockOrder reads the list of locks from a package comment: those of one line have the same rank.
func lockOrder(doc string) map[string]int {
	order := map[string]int{}
	for rank, line := range lockLine.FindAllStringSubmatch(doc, -1) {
		for _, lock := range strings.Split(line[1], ", ") {
			order[lock] = rank
		}
	}
	return order
}

// lockCheck walks through all functions of a package, statement by statement, with the locks that are
// held. A function literal counts as called where it stands; a timer's or a goroutine's, whose function
// is nil below, is walked through without locks.
type lockCheck struct {
	order    map[string]int
	fset     *token.FileSet
	info     *types.Info
	fields   map[*types.Var]string // names of mutexes
	funcs    map[*types.Func]*ast.FuncDecl
	sums     map[*types.Func]*lockSummary
	phase    int
	grown    bool
	taken    map[string]bool
	breaches map[string]bool
}

// The phases of a lockCheck.
const (
	releases = iota
	effects
	breaches
)

// lockSummary is what a function does, as its callers see it.
type lockSummary struct {
	effects  map[lockEffect]bool
	releases map[string]bool // of its caller's locks
}

// lockEffect is a lock that is taken, or a callback, when so many locks of the caller are given back.
type lockEffect struct {
	what     string
	callback bool
	after    string // the caller's lock that was given back before; "" if none was
}

// lockState is what is held at a statement, and which lock of the caller was given back.
type lockState struct {
	held  []string
	after string
}

func (s *lockState) copy() *lockState { return &lockState{slices.Clone(s.held), s.after} }

func (s *lockState) drop(lock string) bool {
	i := slices.Index(s.held, lock)
	if i < 0 {
		return false
	}
	s.held = slices.Delete(s.held, i, i+1)
	return true
}

// join adds what another path to the same statement holds.
func (s *lockState) join(o *lockState) {
	for _, lock := range o.held {
		if !slices.Contains(s.held, lock) {
			s.held = append(s.held, lock)
		}
	}
	if s.after == "" {
		s.after = o.after
	}
}

func newLockCheck(t *testing.T, order map[string]int, sources map[string]string) *lockCheck {
	t.Helper()
	c := &lockCheck{
		order: order, fset: token.NewFileSet(), fields: map[*types.Var]string{},
		info:  &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}},
		funcs: map[*types.Func]*ast.FuncDecl{}, sums: map[*types.Func]*lockSummary{}, taken: map[string]bool{}, breaches: map[string]bool{},
	}
	var files []*ast.File
	for name, text := range sources {
		f := testkit.Must(parser.ParseFile(c.fset, name, text, 0))(t)
		files = append(files, f)
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
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				fn := c.info.Defs[d.Name].(*types.Func)
				c.funcs[fn] = d
				c.sums[fn] = &lockSummary{map[lockEffect]bool{}, map[string]bool{}}
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

// run walks through the functions until nothing more is learned of them: first of the locks that they
// give back, because the rest depends on it, then of their effects. Then it looks for breaches.
func (c *lockCheck) run() []string {
	for c.phase = releases; c.phase <= breaches; c.phase++ {
		for c.grown = true; c.grown; {
			c.grown = false
			for fn, d := range c.funcs {
				c.block(fn, d.Body.List, &lockState{})
			}
		}
	}
	var out []string
	for b := range c.breaches {
		out = append(out, b)
	}
	slices.Sort(out)
	return out
}

func (c *lockCheck) breach(at token.Pos, what string) {
	if c.phase != breaches {
		return
	}
	c.breaches[c.fset.Position(at).String()+": "+what] = true
}

// block walks through statements. It reports whether the last one leaves the block.
func (c *lockCheck) block(fn *types.Func, list []ast.Stmt, s *lockState) (left bool) {
	for i, stmt := range list {
		if i > 0 {
			c.relock(list[i-1], stmt)
		}
		if c.stmt(fn, stmt, s) {
			return true
		}
	}
	return false
}

// relock notices a lock that is taken right after it was given back.
func (c *lockCheck) relock(before, now ast.Stmt) {
	taken, how := c.mutexOf(callOf(now))
	if how != "Lock" {
		return
	}
	call := callOf(before)
	given, how := c.mutexOf(call)
	again := how == "Unlock" && given == taken
	if fn := c.calledBy(call); fn != nil && c.sums[fn] != nil {
		again = again || c.sums[fn].releases[taken]
	}
	if again {
		c.breach(now.Pos(), taken+" is given back and taken again")
	}
}

func callOf(s ast.Stmt) *ast.CallExpr {
	if e, ok := s.(*ast.ExprStmt); ok {
		call, _ := e.X.(*ast.CallExpr)
		return call
	}
	return nil
}

func (c *lockCheck) stmt(fn *types.Func, stmt ast.Stmt, s *lockState) (left bool) {
	switch x := stmt.(type) {
	case *ast.BlockStmt:
		return c.block(fn, x.List, s)
	case *ast.LabeledStmt:
		return c.stmt(fn, x.Stmt, s)
	case *ast.ReturnStmt:
		c.calls(fn, x, s)
		return true
	case *ast.BranchStmt:
		return x.Tok != token.FALLTHROUGH
	case *ast.IfStmt:
		return c.branches(fn, s, []ast.Node{x.Init, x.Cond}, x.Else != nil, x.Body, x.Else)
	case *ast.ForStmt:
		c.branches(fn, s, []ast.Node{x.Init, x.Cond, x.Post}, false, x.Body)
	case *ast.RangeStmt:
		c.branches(fn, s, []ast.Node{x.X}, false, x.Body)
	case *ast.SwitchStmt:
		return c.clauses(fn, s, []ast.Node{x.Init, x.Tag}, x.Body)
	case *ast.TypeSwitchStmt:
		return c.clauses(fn, s, []ast.Node{x.Init, x.Assign}, x.Body)
	case *ast.SelectStmt:
		return c.clauses(fn, s, nil, x.Body)
	case *ast.GoStmt:
		c.calls(nil, x.Call.Fun, &lockState{})
	case *ast.DeferStmt:
		if _, how := c.mutexOf(x.Call); how == "" {
			c.calls(fn, x.Call, s.copy())
		}
	default:
		c.calls(fn, stmt, s)
	}
	return false
}

func (c *lockCheck) clauses(fn *types.Func, s *lockState, first []ast.Node, body *ast.BlockStmt) bool {
	var ways []ast.Stmt
	all := false
	for _, clause := range body.List {
		switch x := clause.(type) {
		case *ast.CaseClause:
			all = all || x.List == nil
			for _, e := range x.List {
				first = append(first, e)
			}
			ways = append(ways, &ast.BlockStmt{List: x.Body})
		case *ast.CommClause:
			all = true
			list := x.Body
			if x.Comm != nil {
				list = append([]ast.Stmt{x.Comm}, list...)
			}
			ways = append(ways, &ast.BlockStmt{List: list})
		}
	}
	return c.branches(fn, s, first, all, ways...)
}

// branches walks through the ways on which a statement may go on. all says that there is no other.
func (c *lockCheck) branches(fn *types.Func, s *lockState, first []ast.Node, all bool, ways ...ast.Stmt) (left bool) {
	for _, n := range first {
		c.calls(fn, n, s)
	}
	var out []*lockState
	if !all {
		out = append(out, s.copy())
	}
	for _, way := range ways {
		if way == nil {
			continue
		}
		end := s.copy()
		if !c.stmt(fn, way, end) {
			out = append(out, end)
		}
	}
	if len(out) == 0 {
		return true
	}
	*s = *out[0]
	for _, o := range out[1:] {
		s.join(o)
	}
	return false
}

// calls walks through the calls in a statement or expression.
func (c *lockCheck) calls(fn *types.Func, n ast.Node, s *lockState) {
	if n == nil {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncLit:
			c.block(fn, x.Body.List, s.copy())
			return false
		case *ast.CallExpr:
			if sel, ok := x.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "AfterFunc" {
				for _, arg := range x.Args {
					c.calls(nil, arg, &lockState{})
				}
				return false
			}
			for _, arg := range x.Args {
				c.calls(fn, arg, s)
			}
			c.calls(fn, x.Fun, s)
			c.call(fn, x, s)
			return false
		}
		return true
	})
}

func (c *lockCheck) call(fn *types.Func, x *ast.CallExpr, s *lockState) {
	if lock, how := c.mutexOf(x); how != "" {
		c.mutex(fn, x, lock, how, s)
		return
	}
	if name := c.callback(x); name != "" {
		c.effect(fn, x.Pos(), lockEffect{what: name, callback: true}, s)
		return
	}
	called := c.calledBy(x)
	sum := c.sums[called]
	if sum == nil {
		return
	}
	for e := range sum.effects {
		c.effect(fn, x.Pos(), e, s)
	}
	for lock := range sum.releases {
		if !s.drop(lock) {
			c.release(fn, lock, s)
		}
	}
}

func (c *lockCheck) mutex(fn *types.Func, x *ast.CallExpr, lock, how string, s *lockState) {
	if how == "Unlock" {
		if !s.drop(lock) {
			c.release(fn, lock, s)
		}
		return
	}
	if _, known := c.order[lock]; !known {
		c.breach(x.Pos(), lock+" is not in the list of locks")
	}
	c.taken[lock] = true
	c.effect(fn, x.Pos(), lockEffect{what: lock}, s)
	s.held = append(s.held, lock)
}

// release notes that a function gives back a lock of its caller's.
func (c *lockCheck) release(fn *types.Func, lock string, s *lockState) {
	s.after = lock
	if fn != nil && !c.sums[fn].releases[lock] {
		c.sums[fn].releases[lock] = true
		c.grown = true
	}
}

// effect checks a lock or a callback against what is held, and notes it for the callers.
func (c *lockCheck) effect(fn *types.Func, at token.Pos, e lockEffect, s *lockState) {
	for _, lock := range s.held {
		switch {
		case lock == e.after:
		case e.callback:
			c.breach(at, e.what+" is called under "+lock)
		case c.order[lock] >= c.order[e.what]:
			c.breach(at, e.what+" is taken under "+lock)
		}
	}
	if e.after == "" || slices.Contains(s.held, e.after) {
		e.after = s.after
	}
	if sum := c.sums[fn]; sum != nil && c.phase == effects && !sum.effects[e] {
		sum.effects[e] = true
		c.grown = true
	}
}

// calledBy is the function of the package that a call calls, or nil.
func (c *lockCheck) calledBy(x *ast.CallExpr) *types.Func {
	if x == nil {
		return nil
	}
	switch f := ast.Unparen(x.Fun).(type) {
	case *ast.Ident:
		fn, _ := c.info.Uses[f].(*types.Func)
		return fn
	case *ast.SelectorExpr:
		fn, _ := c.info.Uses[f.Sel].(*types.Func)
		return fn
	}
	return nil
}

// mutexOf is the name of the mutex that a call takes or gives back, and which of the two.
func (c *lockCheck) mutexOf(x *ast.CallExpr) (lock, how string) {
	fn := c.calledBy(x)
	if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != "sync" {
		return "", ""
	}
	how, _ = strings.CutPrefix(fn.Name(), "R")
	sel, ok := x.Fun.(*ast.SelectorExpr)
	if !ok || how != "Lock" && how != "Unlock" {
		return "", ""
	}
	if of, ok := ast.Unparen(sel.X).(*ast.SelectorExpr); ok {
		if v, ok := c.info.Uses[of.Sel].(*types.Var); ok && c.fields[v] != "" {
			return c.fields[v], how
		}
		return of.Sel.Name, how
	}
	return "a lock without a struct", how
}

// callback is the name of what a call hands over to somebody else's code, or "".
func (c *lockCheck) callback(x *ast.CallExpr) string {
	if tv := c.info.Types[x.Fun]; tv.Type != nil && tv.IsValue() && tv.Type.String() == "context.CancelCauseFunc" {
		return "context.CancelCauseFunc"
	}
	sel, ok := x.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	of := c.info.Selections[sel]
	if of == nil || !types.IsInterface(of.Recv()) {
		return ""
	}
	_, name, _ := strings.Cut(of.Recv().String(), ".")
	name = name + "." + sel.Sel.Name
	if name == "Observer.Observe" || name == "Journal.Append" {
		return name
	}
	return ""
}
