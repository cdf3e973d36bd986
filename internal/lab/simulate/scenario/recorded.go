package scenario

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

const (
	// mostCalls bounds the lines of one file, and mostTokens the input and the output of a call.
	mostCalls  = 5_000_000
	mostTokens = 1_000_000_000
	// latest is when a call comes that would come later: after all runs.
	latest = math.MaxInt64 / 2
	// mostBadLines is how many lines of a file are complained about.
	mostBadLines = 10
)

// column is the meaning of a column of a file of calls.
type column int

const (
	timeColumn column = iota
	inputColumn
	outputColumn
	tenantColumn
	columnCount = iota
)

// columnKeys name the columns in scenarios and, unless these say otherwise, in files.
var columnKeys = [columnCount]string{"time", "input", "output", "tenant"}

// source is a file with the names of its columns, which are empty where the scenario leaves them out.
type source struct {
	file  string
	names [columnCount]string
}

// recording is what a file has: calls by tenant in the order of their times, or all under "".
type recording struct {
	byTenant map[string][]Call
	// divided says that the file names tenants; first is where each of them stands first.
	divided bool
	first   map[string]strictyaml.Place
	// dated says that times are since 1970, and not since the start of the run.
	dated bool
}

// tape is a load that plays a recording.
type tape struct {
	*recording
	at    value // of the file's name
	speed float64
	calls []Call // of its tenant
}

// recordings are all files of calls of a scenario. One that several tenants name is read once.
type recordings struct {
	files map[source]*recording
	tapes []*tape
}

// columns reads the names of columns.
func (s *source) columns(v value) {
	readers := map[string]func(value){}
	for k, key := range columnKeys {
		readers[key] = func(v value) { s.names[k], _ = v.Scalar() }
	}
	v.Fields(readers)
}

// tape reads the file that a load names.
func (p *parser) tape(at value, s source, speed float64) *tape {
	r, known := p.recorded.files[s]
	if !known {
		r = p.record(at, s)
		p.recorded.files[s] = r
	}
	if r == nil {
		return nil
	}
	return &tape{recording: r, at: at, speed: speed}
}

// play gives a tenant its calls of a tape: all, or those that bear its name.
func (p *parser) play(t *tape, tenant string, into *Load) {
	if t == nil {
		return
	}
	name := ""
	if t.divided {
		name = tenant
	}
	t.calls = slices.Clone(t.byTenant[name])
	if t.calls == nil {
		t.at.Problem("has no call of %s; %s", strictyaml.Show(tenant), strictyaml.Advise(tenant, slices.Collect(maps.Keys(t.byTenant))))
		return
	}
	delete(t.first, tenant)
	into.Calls = t.calls
	p.recorded.tapes = append(p.recorded.tapes, t)
}

// arrange lets the calls of all files that have dates begin with the earliest of them. end is when the last call comes.
func (r *recordings) arrange() (end time.Duration) {
	epoch := time.Duration(math.MaxInt64)
	for _, t := range r.tapes {
		if t.dated {
			epoch = min(epoch, t.calls[0].At)
		}
	}
	for _, t := range r.tapes {
		for i := range t.calls {
			c := &t.calls[i]
			if t.dated {
				c.At -= epoch
			}
			c.At = time.Duration(min(float64(c.At)/t.speed, latest))
			end = max(end, c.At)
		}
	}
	return end
}

// idle reports loads of which no call comes before the end of a run, and calls of tenants that the scenario does not have.
func (r *recordings) idle(report *strictyaml.Report, end time.Duration) {
	for _, t := range r.tapes {
		if first := t.calls[0].At; first >= end {
			t.at.Problem("has its first call after %v, and the run ends after %v; if it belongs to another day than the other files, write times as seconds from the start",
				first, end)
		}
	}
	for _, f := range r.files {
		if f == nil || len(f.first) == 0 {
			continue
		}
		names := slices.Sorted(maps.Keys(f.first))
		more := ""
		if len(names) > 1 {
			more = " and " + strconv.Itoa(len(names)-1) + " more"
		}
		report.Add(f.first[names[0]], "no tenant takes the calls of %s%s; add one of that name with this load, or take the lines out of the file",
			strictyaml.Show(names[0]), more)
	}
}

// record reads a file, whose path begins at the folder of the scenario. It returns nil after a problem.
func (p *parser) record(at value, s source) *recording {
	path := s.file
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(p.file), path)
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		at.Problem("%s is not a file; write the path of one, from the folder of the scenario", strictyaml.Show(s.file))
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		at.Problem("cannot be read: %v; write a path from the folder of the scenario", err)
		return nil
	}
	defer f.Close()
	t := table{
		recording: &recording{byTenant: map[string][]Call{}, first: map[string]strictyaml.Place{}},
		report:    p.report, file: path, names: s.names,
	}
	if !t.read(f) {
		return nil
	}
	for _, calls := range t.byTenant {
		slices.SortStableFunc(calls, func(a, b Call) int { return cmp.Compare(a.At, b.At) })
	}
	return t.recording
}

// table is a file of calls that is being read.
type table struct {
	*recording
	report *strictyaml.Report
	file   string
	csv    *csv.Reader
	names  [columnCount]string
	index  [columnCount]int // of each column in a line; -1 for none
	layout string           // of all times; "" before the first
	bad    int              // lines
}

// read reports whether all is well.
func (t *table) read(in io.Reader) bool {
	b := bufio.NewReader(in)
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		_, _ = b.Discard(len(mark))
	}
	t.csv = csv.NewReader(b)
	t.csv.ReuseRecord = true
	header, err := t.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		t.problem(1, 1, "the file is empty; write a line of names, such as time,input,output, and a line for each call")
		return false
	case err != nil:
		t.broken(err)
		return false
	case !t.columns(header):
		return false
	}
	lines := 0
	for ; t.bad < mostBadLines; lines++ {
		row, err := t.csv.Read()
		switch {
		case errors.Is(err, io.EOF) && lines == 0:
			t.problem(1, 1, "there is no line below the header; write one for each call")
			return false
		case errors.Is(err, io.EOF):
			return t.bad == 0
		case errors.Is(err, csv.ErrFieldCount):
			line, col := t.csv.FieldPos(0)
			t.problem(line, col, "the line has %d values, and the header %d names; write a value for each", len(row), len(header))
		case err != nil:
			t.broken(err)
			return false
		case lines >= mostCalls:
			line, _ := t.csv.FieldPos(0)
			t.problem(line, 1, "the file has more than %d calls; cut it here", mostCalls)
			return false
		default:
			t.line(row)
		}
	}
	return false
}

// broken is what is not CSV, or cannot be read.
func (t *table) broken(err error) {
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		t.problem(bad.Line, bad.Column, `%v; write text with " or , in it between quotes, and " in it twice`, bad.Err)
		return
	}
	t.problem(0, 0, "%v", err)
}

func (t *table) problem(line, col int, format string, args ...any) {
	t.bad++
	t.report.Add(strictyaml.Place{File: t.file, Line: line, Col: col}, format, args...)
}

// columns finds the columns in the header.
func (t *table) columns(header []string) bool {
	for i := range header {
		header[i] = strings.TrimSpace(header[i])
	}
	for k, key := range columnKeys {
		name := t.names[k]
		if name == "" {
			name = key
		}
		t.names[k] = name
		t.index[k] = slices.Index(header, name)
		at := t.index[k]
		switch {
		case at >= 0 && slices.Contains(header[at+1:], name):
			t.problem(1, 1, "there are two columns %s; give one of them another name", strictyaml.Show(name))
		case at < 0 && (column(k) != tenantColumn || name != key):
			t.problem(1, 1, "there is no column %s; write in the scenario which is it, columns: {%s: NAME}: %s", strictyaml.Show(name), key, strictyaml.Advise(name, header))
		}
	}
	t.divided = t.index[tenantColumn] >= 0
	return t.bad == 0
}

// line reads a call.
func (t *table) line(row []string) {
	c := Call{}
	tenant := ""
	if t.divided {
		tenant = strings.TrimSpace(row[t.index[tenantColumn]])
		if tenant == "" {
			t.refuse(row, tenantColumn, "is no tenant; write a name")
		}
	}
	before := t.bad
	c.At = t.time(row)
	c.Input = t.tokens(row, inputColumn)
	c.Output = t.tokens(row, outputColumn)
	if t.bad > before {
		return
	}
	if _, known := t.byTenant[tenant]; t.divided && !known {
		line, col := t.csv.FieldPos(t.index[tenantColumn])
		t.first[tenant] = strictyaml.Place{File: t.file, Line: line, Col: col}
	}
	t.byTenant[tenant] = append(t.byTenant[tenant], c)
}

// refuse reports a value of a line.
func (t *table) refuse(row []string, k column, what string) {
	line, col := t.csv.FieldPos(t.index[k])
	t.problem(line, col, "%s: %s %s", t.names[k], strictyaml.Show(row[t.index[k]]), what)
}

func (t *table) tokens(row []string, k column) int64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(row[t.index[k]]), 64)
	if err != nil || n != math.Trunc(n) || n < 0 || n > mostTokens {
		t.refuse(row, k, "is not a number of tokens; write a whole number from 0 to "+strconv.Itoa(mostTokens))
		return 0
	}
	return int64(n)
}

// time reads a time in the layout of those before.
func (t *table) time(row []string) time.Duration {
	for _, layout := range layouts {
		if t.layout != "" && layout != t.layout {
			continue
		}
		at, dated, ok := readTime(layout, strings.TrimSpace(row[t.index[timeColumn]]))
		if ok && (t.layout == "" || dated == t.dated) {
			t.layout = layout
			t.dated = dated
			return at
		}
	}
	what := "is not a time; write 2026-11-16 18:17:03.98, 2026-11-16T18:17:03Z, Unix time, or seconds from the start"
	if t.layout != "" {
		what = "is not a time of the form of the lines before; write all in one form"
	}
	t.refuse(row, timeColumn, what)
	return 0
}

// layouts are those of times, of which the first is no date.
var layouts = []string{
	number, "2006-01-02 15:04:05", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z07",
	"2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 UTC", "02/Jan/2006:15:04:05 -0700",
}

const number = "number"

// readTime is a time since 1970 if it is dated, else since the start of a run. A number is one of seconds from the start or, from
// 1973 on, of seconds, milli-, micro- or nanoseconds since 1970, whichever comes before the year 5138.
func readTime(layout, text string) (at time.Duration, dated, ok bool) {
	if layout != number {
		t, err := time.Parse(layout, text)
		return time.Duration(t.UnixNano()), true, err == nil && t.Year() >= 1970 && t.Year() < 2262
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x < 0 || !(x < 1e20) {
		return 0, false, false
	}
	unit := time.Second
	for y := x; y >= 1e11; y /= 1000 {
		unit /= 1000
	}
	x *= float64(unit)
	return time.Duration(x), x >= 1e17, x < math.MaxInt64
}
