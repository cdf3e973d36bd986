package parts

import (
	"flag"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit/mutation"
)

// mutant is a rule that is broken in the source: what stands there, what does instead, and
// the test that has to fail.
type mutant struct{ rule, file, old, new, test string }

// mutants are the rules one by one, each of which was seen to fail when it was broken.
var mutants = []mutant{
	{"what a process may take counts, not only what it was told last", "share.go", "h.High = max(h.High, part)", "h.High = part", "TestSafety"},
	{"what is granted counts at once", "share.go", "h.High = max(h.High, part)", "", "TestSafety"},
	{"what is used counts beyond the part", "account.go", "return max(h.High, h.Used)", "return h.High", "TestSafety"},
	{"what is used of a period is nobody's to divide", "share.go", "		return h.Used\n", "		return 0\n", "TestTaken_Period"},
	{"what others have is not granted again", "share.go", "min(max(target(h, live, avail), h.given), free,", "min(max(target(h, live, avail), h.given), avail,", "TestSafety"},
	{"who is silent counts for a Window", "account.go", "return h.expires() + h.window()", "return h.expires()", "TestSafety"},
	{"who is silent counts for a TTL longer, in which it may have used its part", "account.go", "return h.expires() + h.window()", "return h.expires() - ttl + h.window()", "TestSilent"},
	{"a window that is longer or shorter counts for its own time", "account.go", "	return h.Tail\n", "	return window\n", "TestSilent_Windows"},
	{"also of what a process has left", "account.go", "Tail: h.Tail, Marks", "Marks", "TestSilent_Windows"},
	{"a part that lasts counts as long", "account.go", "h.Seen + ttl + h.Lasts", "h.Seen + ttl", "TestSafety"},
	{"a part lasts no longer than was asked for", "holder.go", "h.until = fresh.Add(h.sent.lasts - h.sent.lasts/drift)", "h.until = fresh.Add(TTL)", "TestSafety"},
	{"who need not be heard of is there", "restore.go", "t.Heard+t.Lasted >= last-ttl", "t.Heard >= last-ttl", "TestRestored_Lasting"},
	{"a part that lasts expires as told of in the last beat, even without an answer", "holder.go", "until.Before(h.until)", "false", "TestSafety"},
	{"who leaves may have used a part that lasted", "account.go", "			h.Used = h.belief()\n", "", "TestLeft"},
	{"a period counts to its end", "account.go", "return h.Ends + window", "return h.Seen + ttl", "TestSafety"},
	{"a period ends by the last clock", "account.go", "return h.Ends + window", "return h.Ends", "TestOver"},
	{"what is left counts on", "account.go", "h.Kind != Slots && !there", "h.Kind == Slots && !there", "TestLeft"},
	{"what who leaves used of a period counts on", "account.go", "min(x.Used+h.belief(), maxSum)", "x.Used", "TestSafety"},
	{"those who leave are not kept one by one", "account.go", "	if b.Left {\n		a.bequeath(m)\n	}\n", "", "TestLeaves"},
	{"a beat that comes late is not taken", "account.go", "b.Seq <= m.", "b.Seq == m.", "TestSafety"},
	{"a beat that comes twice is not answered twice", "account.go", "b.Seq <= m.", "b.Seq < m.", "TestTwice"},
	{"only the answer to the last beat is taken", "holder.go", "r.Seq != h.seq || h.acked == h.seq ||", "r.Seq == 0 ||", "TestSafety"},
	{"a part's time begins when the beat was sent", "holder.go", "fresh := h.sent.at.Add(TTL - TTL/drift)", "fresh := now.Add(TTL - TTL/drift)", "TestModel"},
	{"clocks may differ by a part in a thousand", "holder.go", "h.sent.at.Add(TTL - TTL/drift)", "h.sent.at.Add(TTL)", "TestDrift"},
	{"a part that has expired is none", "holder.go", "	if !now.Before(h.until) {\n		return 0\n	}\n", "", "TestDrift"},
	{"what a process says that it has counts", "account.go", "High: c.Part,", "", "TestSafety"},
	{"the store's clock never runs backwards", "account.go", "a.Now = max(a.Now, now)", "a.Now = now", "TestBack"},
	{"what does not divide goes to all in turn", "share.go", "h.call() > level", "h.call() > max(level, part)", "TestTurns"},
	{"who has waited longest is served", "share.go", "if first >= 0 {", "if first >= 1000 {", "TestLarge"},
	{"a smaller part is acknowledged early", "holder.go", "return h.given &&", "return false &&", "TestDue"},
	{"what runs on counts", "account.go", "return h.expires() + h.Tail", "return h.expires()", "TestSlots_Safety"},
	{"what runs on counts for a TTL at least", "account.go", "h.Tail = max(c.Tail, ttl)", "h.Tail = c.Tail", "TestSlots_Jump"},
	{"an account that may not know all parts grants none", "share.go", "part = min(part, h.High)", "_ = part", "TestSlots_Safety"},
	{"who has not been told for a TTL may not know all parts", "account.go", "a.Now == 0 || now-a.Now > ttl", "a.Now == 0", "TestSlots_Safety"},
	{"it does not know them before all have had time to tell", "share.go", "a.Now <= a.Began+2*ttl", "a.Now <= a.Began+ttl", "TestSlots_Tail"},
	{"or before as many have told as there are", "first.go", "return ran >= expect", "return ran >= 1", "TestComplete"},
	{"who tells must have run beside the last that came", "first.go", " && last.Joined <= m.Heard", "", "TestComplete"},
	{"only an account that is new is complete once all have told", "first.go", " && a.Began == a.Born", "", "TestComplete_Away"},
	{"or by processes of which it is unknown when they came", "first.go", "m.Joined > 0 && ", "", "TestComplete_Earlier"},
	{"a declaration is for the first process alone", "account.go", "	a.Declared = \"\"\n", "", "TestDeclare"},
	{"a declaration is good for the server that took it", "account.go", "a.Declared != \"\" && a.Declared == a.server", "a.Declared != \"\"", "TestDeclare_Restored"},
	{"after one that is void all have the time to tell", "account.go", "case a.Declared != \"\" || a.Now == 0", "case a.Now == 0", "TestDeclare_Restored"},
	{"a declaration does not speak for who knows of another account", "share.go", "		part = min(h.High, free) // nobody", "		// nobody", "TestDeclare_Lost"},
	{"no account is declared new while a process is heard of", "first.go", "a.here(m) || ", "", "TestDeclare_InUse"},
	{"no account is declared new while calls may run", "first.go", "h.Kind == Slots && h.belief() > 0", "h.belief() < 0", "TestDeclare_InUse"},
	{"the least limit holds", "share.go", "least = min(least, x.Limit)", "", "TestSlots_Least"},
	{"nothing is granted beyond the least limit", "share.go", "least = min(least, x.Limit)", "", "TestModel"},
	{"what is spare is nobody's while somebody waits", "share.go", "less(h.Want-h.Spare, h.gone())", "less(h.Want, h.gone())", "TestSlots_Weights"},
	{"what is spare is for all or for nobody", "share.go", "if rest < int64(len(live)) {", "if rest < 0 {", "TestSlots_Weights"},
	{"who wants more gets it by weight", "share.go", "less(x.firm(), calm), Weight: max(1, x.Weight)", "less(x.firm(), calm), Weight: 1", "TestSlots_Weights"},
	{"who has all that is wanted has no more for its weight", "share.go", "Demand: calm, Weight", "Demand: 0, Weight", "TestSlots_Weights"},
	{"by weight only who would have nothing is served first", "share.go", "		level = part\n", "		level = 0\n", "TestSlots_Weights"},
	{"what more runs than the part is told as it ends", "holder.go", " || c.Kind == Slots && c.Used > part && !c.Passed", "", "TestDue"},
	{"slots are asked for again soon", "holder.go", "longest = interval / 2", "longest = interval", "TestDue"},
	{"a call that is asked for is let in by all limits or by none", "ask.go", "	if v.In {\n		v.Given", "	if v.In || len(c) > 1 {\n		v.Given", "TestAsk_Oracle"},
	{"what others have is not free", "ask.go", "free = less(free, x.belief())", "_ = x", "TestAsk_Oracle"},
	{"what a call was let in with counts for the next", "ask.go", "h.High = h.belief() + amount", "", "TestAsk_Oracle"},
	{"the rest is only had where nothing is in flight", "ask.go", "free > 0 && !a.inFlight", "free > 0 || !a.inFlight", "TestAsk_Oracle"},
	{"what is let in is a part of the part", "ask.go", "h.given = h.Used", "h.given = 0", "TestAsk_Oracle"},
	{"an ask that comes twice changes nothing", "ask.go", "late = late || b.Seq <= members[i].Seq", "late = false", "TestAsk_Twice"},
	{"what others may have been granted since the last beat counts after a loss", "restore.go", "min(c.Most+c.Had, max(c.Limit, sum))", "sum", "TestLost"},
	{"no more of a period is granted than others believe", "restore.go", "most = min(most, less(x.Most+x.belief(), others))", "_ = x", "TestLost"},
	{"what others had counts only alone if all have told", "restore.go", "if told < all {", "if false {", "TestLost"},
	{"who rests does not make up for who is gone", "restore.go", "if t.Heard+t.Lasted >= last-ttl {", "if true {", "TestRestored_Resting"},
	{"of others counts what those had who were heard of no more", "restore.go", "gone = max(gone, t.Gone)", "_ = t.Gone", "TestRestored_Gone"},
	{"what went from one who has told to another counts once", "restore.go", "return min(gone, less(u.Sum, u.Had))", "return less(u.Sum, u.Had)", "TestRestored_Moved"},
	{"who has left is not waited for", "restore.go", " || x.m.Instance == heir", "", "TestRestored_Left"},
	{"what an earlier process used is told of an account that has forgotten it", "holder.go", "h.former && r.Epoch != h.known", "false", "TestSucceed"},
	{"and only of such an account", "holder.go", "h.former && r.Epoch != h.known", "true", "TestSucceed"},
	{"what is told as used for an earlier process counts for nobody else", "holder.go", "			c.Had = c.Used\n", "			c.Had = 0\n", "TestSucceed"},
	{"a process tells once of a lost account", "restore.go", "!slices.Contains(a.Tellers, b.Instance)", "true", "TestLost"},
	{"what was sent before a loss tells nothing of it", "restore.go", "if knows && b.Epoch == a.Epoch {", "if knows {", "TestRestored_Old"},
	{"the parts of a lost account count from its loss on", "restore.go", "Seen: born", "Seen: 0", "TestRestored"},
	{"nothing new is granted while an account learns", "share.go", "part = min(h.High, free) //", "_ = 0 //", "TestRestored"},
	{"an account that learns says so", "account.go", "Learning: a.Lost || a.untaught(b), ", "", "TestRestored"},
	{"who tells late is asked, too", "account.go", "Learning: a.Lost || a.untaught(b),", "Learning: a.Lost,", "TestRestored_Late"},
	{"what was told without an answer may be what was counted", "holder.go", "k.had = min(k.had, counted)", "_ = counted", "TestHad"},
	{"what was not told of in each beat is known for a while", "holder.go", "age >= 0 && age <= ttl {", "age != age {", "TestHad_NowAndThen"},
	{"of that the account counts what was used", "holder.go", "k.had = k.left", "_ = k.left", "TestHad_NowAndThen"},
	{"nothing is due for who has nothing", "holder.go", "case h.quiet && !busy && !lacking:", "case h.quiet && false:", "TestDue"},
}

// TestMutants breaks each rule, in the source itself, and runs the test that has to fail.
// Without -mutants it only sees that the source is as the table says.
func TestMutants(t *testing.T) {
	var list []mutation.Mutant
	for _, m := range mutants {
		list = append(list, mutation.Mutant{Rule: m.rule, File: m.file, Old: m.old, New: m.new, Test: m.test})
	}
	mutation.Run(t, *tryMutants, list, "-worlds", "400")
}

var (
	worlds      = flag.Int("worlds", 20, "how many worlds to simulate")
	wholeSearch = flag.Bool("whole", false, "search the small worlds to the end, or until there are very many states")
	tryMutants  = flag.Bool("mutants", false, "break each rule in turn, and see a test fail")
)
