package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Whole lists are asked for where they are looked at, and only if the snapshot has not all.
func TestLook_AsksForWhatIsSeen(t *testing.T) {
	b := newBench(crowd(250), 80, 24)
	for _, step := range []struct {
		keys []string
		want []string
	}{
		{nil, []string{"snapshot"}},
		{[]string{"tab"}, []string{"snapshot", "fairness"}},
		{[]string{"enter"}, []string{"snapshot", "fairness", "leases", "tenants?limit=1&tenant=tenant-00000"}},
		{[]string{"tab"}, []string{"snapshot", "leases"}},
		{[]string{"tab"}, []string{"snapshot"}},
	} {
		b.keys(step.keys...).asked = nil
		b.second()
		var got []string
		for _, path := range b.asked {
			got = append(got, strings.TrimPrefix(path, "/api/v1/"))
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("after %v: asked for %v, want %v", step.keys, got, step.want)
		}
	}
	few := newBench(sample(), 80, 24).keys("tab")
	few.second()
	if want := []string{"/api/v1/snapshot"}; !slices.Equal(few.asked, want) {
		t.Errorf("the snapshot has all tenants, and asked for is %v", few.asked)
	}
}

// However long an answer takes, and whatever is pressed: one look at a time, a second between
// two, and none while the picture is held. A look that has no answer is given up.
func TestLook_Cadence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sample()
		began := time.Now()
		var at []time.Duration
		slow := time.Duration(0)
		m := New(t.Context(), Options{Where: "x", Glyphs: Unicode, Now: time.Now, Ask: func(ctx context.Context, path string, into any) error {
			at = append(at, time.Since(began))
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(slow):
				return s.ask(ctx, path, into)
			}
		}})
		cmd := m.Init()
		step := func() { _, cmd = m.Update(cmd()) }
		for range 3 { // look, pause, look
			step()
		}
		m.Update(key("p"))
		for range 3 {
			step()
		}
		m.Update(key("p"))
		slow = time.Hour
		step() // the pause
		step() // a look that has no answer
		if m.lost == nil || !errors.Is(m.lost, context.DeadlineExceeded) {
			t.Errorf("a gateway that hangs: %v", m.lost)
		}
		slow = 0
		step()
		step()
		want := []time.Duration{0, time.Second, 5 * time.Second, 11 * time.Second}
		testkit.Same(t, want, at, "asked at")
		if m.lost != nil {
			t.Errorf("it is back, and still said to be lost: %v", m.lost)
		}
	})
}

// What was asked for before the picture was held is not shown in it.
func TestPause_LateAnswer(t *testing.T) {
	s := sample()
	b := newBench(s, 80, 24)
	b.second()
	s.Node = "gw-9"
	late := b.poll()()
	b.keys("p").Update(late)
	if picture := b.picture(t); strings.Contains(picture, "gw-9") {
		t.Errorf("the picture is held, and changes:\n%s", picture)
	}
}

// A selected row stays selected where it goes, and also when others go; its neighbour is, when
// it goes itself.
func TestSelection(t *testing.T) {
	s := crowd(5)
	b := newBench(s, 80, 24).keys("tab")
	b.second()
	b.keys("down", "down")
	tenants := s.Pools[0].Fairness.Tenants
	tenants[2].Received = 2
	tenants[2].Entitled = 2
	b.second()
	if got := chosenRow(b, t); got != "tenant-00002" || b.front().cursor != 0 {
		t.Errorf("%s is selected, in row %d", got, b.front().cursor)
	}
	s.Pools[0].Fairness.Tenants = slices.Delete(tenants, 2, 3)
	b.second()
	if got := chosenRow(b, t); got != "tenant-00000" {
		t.Errorf("%s is selected after the other went", got)
	}
}

func chosenRow(b *bench, t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(b.picture(t)) {
		if name, ok := strings.CutPrefix(line, "> "); ok {
			return strings.Fields(name)[0]
		}
	}
	return ""
}

// What keys come to, seen in the row that is selected, and in the last line.
func TestKeys(t *testing.T) {
	for _, tc := range []struct{ keys, row, foot string }{
		{"tab G", "tenant-00299", "300/300"},
		{"tab G g", "tenant-00000", "1/300"},
		{"tab pgdown", "tenant-00019", "20/300"},
		{"tab j j k", "tenant-00001", "2/300"},
		{"tab s s", "tenant-00006", "by queue  1/300"},
		{"tab / 2 9 9", "tenant-00299", "filter: 299_"},
		{"tab / 2 9 9 enter", "tenant-00299", "filter: 299  esc"},
		{"tab / 2 9 9 backspace", "tenant-00029", "1/13"},
		{"tab / 2 9 9 esc", "tenant-00000", "1/300"},
		{"tab / 2 9 9 enter esc", "tenant-00000", "1/300"},
		{"tab / 2 9 9 enter / 9 esc", "tenant-00299", "filter: 299  esc"},
		{"tab / q", "", "filter: q_"},
		{"enter / 7 enter G", "tenant-00297", "57/57"},
		{"enter G enter esc", "tenant-00299", "300/300"},
		{"enter G enter esc esc", "big", "1/1"},
		{"enter tab g", "tenant-00000", "by received"},
		{"shift", "big", "1/1"},
		{"? q", "big", "1/1"},
	} {
		s := crowd(300)
		s.Pools[0].Fairness = s.shares[0].Fairness
		b := newBench(s, 80, 24)
		b.second()
		b.keys(strings.Fields(tc.keys)...)
		picture := b.picture(t)
		lines := strings.Split(picture, "\n")
		if got := chosenRow(b, t); got != tc.row || !strings.Contains(lines[len(lines)-1], tc.foot) {
			t.Errorf("%s: %q is selected, want %q, and %q below:\n%s", tc.keys, got, tc.row, tc.foot, picture)
		}
	}
}

// q ends it, and so does Ctrl-C, also where q is a letter.
func TestQuit(t *testing.T) {
	ctrlC := tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	for _, tc := range []struct {
		before []string
		key    tea.KeyPressMsg
		quits  bool
	}{
		{nil, key("q"), true},
		{nil, ctrlC, true},
		{[]string{"/"}, key("q"), false},
		{[]string{"/"}, ctrlC, true},
		{[]string{"?"}, key("q"), false},
		{[]string{"?"}, ctrlC, true},
	} {
		_, cmd := newBench(sample(), 80, 24).keys(tc.before...).Update(tc.key)
		quits := false
		if cmd != nil {
			_, quits = cmd().(tea.QuitMsg)
		}
		if quits != tc.quits {
			t.Errorf("%s after %v: quits %v", tc.key, tc.before, quits)
		}
	}
}

// A frame of ten thousand tenants costs what one of a hundred does: rows that are not seen are
// not drawn.
func TestFrame_CostIsOfWhatIsSeen(t *testing.T) {
	cost := func(n int) uint64 {
		b := newBench(crowd(n), 80, 24).keys("tab")
		b.second()
		if _, known, _ := b.front().sheet.len(); known != n {
			t.Fatalf("%d tenants of %d", known, n)
		}
		return testkit.Allocs(t, 20, func() {
			b.keys("down")
			_ = b.frame()
		})
	}
	few := cost(100)
	many := cost(10_000)
	if 5*many > 6*few {
		t.Errorf("%v allocations for 10,000 tenants, %v for 100", many, few)
	}
}

func TestTexts(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1k", 1234: "1.2k", 9949: "9.9k", 9950: "10k", 99_999: "100k", 213_400: "213k", 999_499: "999k", 999_500: "1M", 1_188_000: "1.2M", -1500: "-1.5k"} {
		if got := short(n); got != want {
			t.Errorf("short(%d) is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1_188_000: "1,188,000", -1000: "-1,000", -100: "-100"} {
		if got := whole(n); got != want {
			t.Errorf("whole(%d) is %s, want %s", n, got, want)
		}
	}
	for part, want := range map[float64]string{0: "0%", 1: "100%", 0.5: "50%", 0.0994: "9.9%", 0.0996: "10%", 0.004: "0.4%", 0.0004: "0.04%", 0.00001: "<.01%", 12: "1200%"} {
		if got := percent(part); got != want {
			t.Errorf("percent(%v) is %s, want %s", part, got, want)
		}
	}
	for s, want := range map[float64]string{-1: "-", 0: "-", 0.31: "0.3s", 9.96: "10s", 59: "59s", 120: "2m", 3600: "60m", 7200: "2h", 9e5: "10d"} {
		if got := span(s); got != want {
			t.Errorf("span(%v) is %s, want %s", s, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, tc := range []struct {
		part, mark float64
		want       string
	}{
		{0, -1, ".........."},
		{0.001, -1, "#........."}, // anything is to be seen
		{0.5, -1, "#####....."},
		{1, -1, "##########"},
		{7, -1, "##########"}, // a debt
		{0.3, 0.5, "###.|....."},
		{0.5, 0.3, "##|##....."},
		{1, 1, "#########|"},
		{0, 0, "|........."},
	} {
		if got := ASCII.bar(tc.part, tc.mark, 10); got != tc.want {
			t.Errorf("%v with a mark at %v: %s, want %s", tc.part, tc.mark, got, tc.want)
		}
	}
}

// Columns that matter least go first, and those that stay fill the width.
func TestLayout(t *testing.T) {
	l := tenantList("", Unicode)
	d := &Data{Snapshot: sample().Snapshot}
	l.load(d)
	l.arrange("", 0)
	for width, want := range map[int]string{
		40:  "TENANT ENTITLED RECEIVED QUEUE",
		80:  "TENANT POOL ENTITLED RECEIVED RUN QUEUE WAIT DEBT LENT",
		120: "TENANT POOL WT ENTITLED RECEIVED RUN QUEUE WAIT DEBT BORROW LENT",
	} {
		if got := strings.Join(strings.Fields(l.layout(width).head()), " "); got != want {
			t.Errorf("at %d: %s, want %s", width, got, want)
		}
	}
}

// Of a tenant whose pool goes, and of a pool that goes, the screen says so.
func TestCloser_Gone(t *testing.T) {
	for keys, want := range map[string]string{"enter": "The policy in force has no pool gpt-4o.", "tab enter": "No pool has a tenant acme now."} {
		s := sample()
		b := newBench(s, 80, 24)
		b.second()
		b.keys(strings.Fields(keys)...)
		s.Pools = []adminapi.Pool{{Name: "other", RateRatio: 1}}
		b.second()
		if picture := b.picture(t); !strings.Contains(picture, want) {
			t.Errorf("%s:\n%s", fmt.Sprint(keys), picture)
		}
	}
}
