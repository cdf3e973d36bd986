package decisions

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// notes is a log that is written by another goroutine.
type notes struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buf.Write(b)
}

func (n *notes) count(text string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Count(n.buf.String(), text)
}

func open(t *testing.T, path string, size int64, keep int) (*Writer, *notes) {
	t.Helper()
	n := &notes{}
	w := testkit.Must(Open(Options{Path: path, MaxSize: size, Keep: keep, Log: slog.New(slog.NewTextHandler(n, nil))}))(t)
	return w, n
}

var origin = time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC)

func starts(w *Writer) {
	w.Observe(governor.Event{Kind: governor.EventStarted, At: origin, Revision: "r", Config: &governor.Config{Pools: []governor.Pool{{Name: "p", RPM: 9}}}})
}

// asks observes the nth call of a run, and waits until the writer has taken it: so what
// goes to which file does not depend on how fast it is.
func asks(w *Writer, n int) {
	w.Observe(governor.Event{Kind: governor.EventAsked, At: origin.Add(time.Duration(n)), Call: uint64(n), Request: governor.Request{Tenant: "a", Pool: "p"}})
	for len(w.queue) > 0 {
		time.Sleep(time.Millisecond) // of a poll
	}
}

func lines(t *testing.T, path string) []Line {
	t.Helper()
	var out []Line
	for l, err := range Read(Files(path)) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// Files are begun anew when they are full, the oldest go, and what is left is whole and
// in order, each with the policy.
func TestWriter_Rotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	w, log := open(t, path, 2000, 3)
	starts(w)
	for n := range 100 {
		asks(w, n+1)
	}
	testkit.OK(t, w.Close())
	if list := Files(path); len(list) != 4 || list[0] != path+".3" || list[3] != path {
		t.Fatalf("files %q", list)
	}
	next := uint64(0)
	for _, file := range Files(path) {
		info, err := os.Stat(file)
		if err != nil || info.Size() > 2000 {
			t.Errorf("%s has %d bytes, %v", file, info.Size(), err)
		}
		for l, err := range Read([]string{file}) {
			switch {
			case err != nil:
				t.Fatal(err)
			case l.Kind == Continued:
				if l.Policy.Hash != "r" || len(l.Policy.Pools) != 1 || !l.Start.Time.Equal(origin) {
					t.Errorf("%s begins with %+v", file, l)
				}
				if next > 0 && l.At != int64(next-1) {
					t.Errorf("%s begins at %d, behind %d", file, l.At, next-1)
				}
			case next == 0 || l.Call == next:
				next = l.Call + 1
			default:
				t.Fatalf("behind %d comes %d", next-1, l.Call)
			}
		}
	}
	if next != 101 || log.buf.Len() > 0 || w.Lost() > 0 {
		t.Errorf("the last is %d, %d are lost: %s", next-1, w.Lost(), log.buf.String())
	}
}

// What was written before a restart stays, and a line that a kill has torn costs itself
// alone.
func TestWriter_GoesOnBehindATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	testkit.OK(t, os.WriteFile(path, []byte(`{"t":1,"ev":"drain"}`+"\n"+`{"t":2,"ev":"as`), 0o600))
	w, _ := open(t, path, 1<<20, 3)
	starts(w)
	testkit.OK(t, w.Close())
	var kinds []Kind
	for _, l := range lines(t, path) {
		kinds = append(kinds, l.Kind)
	}
	testkit.Same(t, []Kind{Drained, Lost, Started}, kinds)
}

// A file is written by one process at a time, also when it has been begun anew.
func TestOpen_AFileOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	f := testkit.Must(openFiles(path, 10, 1))(t)
	for range 2 {
		if _, err := Open(Options{Path: path, MaxSize: 10}); err == nil || !strings.Contains(err.Error(), "d.jsonl is written by another process. Name a file of this gateway's own") {
			t.Errorf("another one: %v", err)
		}
		testkit.OK(t, errors.Join(f.write([]byte("0123456789\n")), f.makeRoom(1, func() []byte { return []byte("\n") })))
	}
	testkit.OK(t, f.close())
	w, _ := open(t, path, 10, 1)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// Which gateways share limits is written when it changes and each minute, and again in each file; and
// who wrote the log.
func TestWriter_TellsWhoSharesLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "d.jsonl")
		w := testkit.Must(Open(Options{Path: path, MaxSize: 2000, Keep: 9, Node: "a", Log: slog.New(slog.DiscardHandler)}))(t)
		began := time.Now()
		tell := func(kind governor.EventKind) {
			w.Observe(governor.Event{Kind: kind, At: time.Now(), Config: &governor.Config{Shared: true}})
			synctest.Wait()
		}
		tell(governor.EventStarted)
		tell(governor.EventDrained)
		w.See([]string{"a"})
		tell(governor.EventDrained)
		w.See([]string{"a"})
		tell(governor.EventDrained)
		w.See([]string{"a", "b"})
		time.Sleep(2*time.Minute + time.Second)
		testkit.OK(t, w.Close())
		var got []string
		for _, l := range lines(t, path) {
			got = append(got, fmt.Sprint(l.Kind, l.Nodes, time.Duration(l.At)))
			if s := l.Start; s != nil && (s.Node != "a" || !s.Shared || !s.Time.Equal(began)) {
				t.Errorf("it begins with %+v", s)
			}
		}
		want := []string{"start[] 0s", "drain[] 0s", "drain[] 0s", "nodes[a] 0s", "drain[] 0s", "nodes[a b] 1m0s", "nodes[a b] 2m0s"}
		testkit.Same(t, want, got)
	})
}

// A file that goes on has who shares limits at its head.
func TestWriter_RotatesWhoSharesLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	w, _ := open(t, path, 2000, 99)
	starts(w)
	w.See([]string{"a", "b"})
	for n := range 50 {
		asks(w, n+1)
	}
	testkit.OK(t, w.Close())
	heads := 0
	for _, l := range lines(t, path) {
		if l.Kind == Continued {
			heads++
			if len(l.Nodes) != 2 {
				t.Errorf("a file begins with %v", l.Nodes)
			}
		}
	}
	if heads == 0 {
		t.Error("there is one file")
	}
}

// No file is read for two logs, by whatever name.
func TestLogs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "a.1", "b"} {
		testkit.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	a := filepath.Join(dir, "a")
	b := filepath.Join(dir, "b")
	got, err := Logs([]string{a, b})
	if diff := cmp.Diff([][]string{{a + ".1", a}, {b}}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	testkit.OK(t, os.Symlink(a, filepath.Join(dir, "link")))
	for _, again := range []string{a, a + ".1", dir + "/./a", filepath.Join(dir, "link")} {
		if _, err := Logs([]string{a, b, again}); err == nil || !strings.Contains(err.Error(), " are one file; name each log once") {
			t.Errorf("%s: %v", again, err)
		}
	}
}

// A full disk costs lines: they are counted, it is said once, and nobody waits.
func TestWriter_OnAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no disk here that is always full")
	}
	w, log := open(t, "/dev/full", 1<<20, 3)
	starts(w)
	for n := range 10 {
		asks(w, n+1)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if w.Lost() != 11 || log.count("the decision log cannot be written") != 1 || log.count("no space left") != 1 {
		t.Errorf("%d are lost: %s", w.Lost(), log.buf.String())
	}
}

// Where files cannot be rotated the log goes on in the one that there is, says so once,
// and once that it is over.
func TestWriter_WhereItCannotRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	testkit.OK(t, os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700))
	w, log := open(t, path, 1000, 1)
	starts(w)
	for n := range 40 {
		asks(w, n+1)
	}
	for log.count("cannot be rotated") == 0 || linesSoFar(t, path) < 41 {
		time.Sleep(time.Millisecond) // of a poll
	}
	testkit.OK(t, os.RemoveAll(path+".1"))
	asks(w, 41)
	testkit.OK(t, w.Close())
	if w.Lost() > 0 || log.count("cannot be rotated") != 1 || log.count("is written again") != 1 {
		t.Errorf("%d are lost: %s", w.Lost(), log.buf.String())
	}
	list := lines(t, path)
	if len(list) != 43 || list[0].Kind != Started || list[41].Kind != Continued || list[42].Call != 41 {
		t.Errorf("%d lines, the last is %+v", len(list), list[len(list)-1])
	}
}

// linesSoFar counts the lines of a file that is being written.
func linesSoFar(t *testing.T, path string) int {
	t.Helper()
	text := testkit.Must(os.ReadFile(path))(t)
	return bytes.Count(text, []byte("\n"))
}

// Whoever decides is not held up by a disk that takes nothing: what the queue cannot
// hold is lost, and the log says how much that is.
func TestWriter_HoldsNobodyUp(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "d.jsonl")
	w, _ := open(t, fifo, 1<<30, 0)
	w.files.file.Close() // and from here on a pipe that nobody reads
	r, stuck, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.files.file = stuck
	starts(w)
	const n = 20_000
	for i := range n {
		w.Observe(governor.Event{Kind: governor.EventDrained, At: origin, Call: uint64(i)})
	}
	if w.Lost() < n-queued-10_000 || w.Lost() == 0 {
		t.Errorf("of %d events that nobody takes %d are lost", n, w.Lost())
	}
	lost := make(chan uint64)
	go func() {
		out := new(bytes.Buffer)
		told := uint64(0)
		_, _ = out.ReadFrom(r)
		for line := range strings.SplitSeq(out.String(), "\n") {
			var k uint64
			if _, err := fmt.Sscanf(line, `{"t":0,"ev":"lost","lines":%d}`, &k); err == nil {
				told += k
			}
		}
		lost <- told
	}()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if told := <-lost; told != w.Lost() {
		t.Errorf("%d are lost, and the log tells of %d", w.Lost(), told)
	}
}

// What a governor is asked for can be read again, whatever it is but the caller's own code, Via, Listed and Asked: the log has the
// names of upstreams (Ask.Upstreams), which have their places in the policy of the moment alone, and a recorded governor has a clock of its own.
func TestAsk_IsReadAgain(t *testing.T) {
	wait := 3 * time.Second
	req := governor.Request{
		Tenant: "a", Pool: "p", Model: "m", ID: "i", Input: 1, Output: 2, Price: &governor.Price{Input: 3}, MaxWait: &wait,
		Stream: true, Background: true, Claim: escrow.Claim{Key: 1<<64 - 1}, Forced: true, BudgetsOnly: true,
		Booked: governor.Booked{Input: 4, Output: 5}, Told: true, Tier: "flex", Conversation: 6, Below: 7, Pause: time.Second,
	}
	v := reflect.ValueOf(req)
	for i := range v.NumField() {
		code := v.Field(i).Kind() == reflect.Func || v.Field(i).Kind() == reflect.Interface
		name := v.Type().Field(i).Name
		left := code || name == "Via" || name == "Listed" || name == "Asked"
		if v.Type().Field(i).IsExported() && !left && v.Field(i).IsZero() {
			t.Errorf("%s is not looked at", name)
		}
	}
	if got := askOf(&req).Of(); !reflect.DeepEqual(got, req) {
		t.Errorf("%+v is read again as %+v", req, got)
	}
}

// A path that cannot be looked at is an error, and not looked at for ever.
func TestLogs_BadPath(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testkit.OK(t, os.WriteFile(file, nil, 0o600))
	if _, err := Logs([]string{filepath.Join(file, "decisions.jsonl")}); err == nil {
		t.Error("a log in a file that is no folder is no error")
	}
}
