package parts

import "testing"

// hears is a process that tells of slots, and hears the answers.
type hears struct {
	a                 *Account
	name              string
	seq, known, heard int64
	slots             Claim
}

func (p *hears) tells(now int64) int64 {
	p.seq++
	r := p.a.Beat(now, &Beat{Owner: "o", Instance: p.name, Seq: p.seq, Epoch: p.known, Known: p.known, Heard: p.heard, Claims: []Claim{p.slots}})
	p.known = r.Epoch
	p.heard = r.Now
	return r.Parts[0].Part
}

// expecting are processes of an account, each of which wants some slots.
func expecting(a *Account, expect int64, names ...string) (list []*hears) {
	for _, name := range names {
		slots := claim(Slots, 0, 0, 3)
		slots.Tail = 4000
		slots.Expect = expect
		list = append(list, &hears{a: a, name: name, slots: slots})
	}
	return list
}

// TestComplete: a new account grants slots once as many processes as there are have told while all of them ran, and not before.
func TestComplete(t *testing.T) {
	list := expecting(&Account{}, 2, "a", "b")
	a, b := list[0], list[1]
	for _, x := range []struct {
		who  *hears
		now  int64
		want int64
	}{
		{a, 1000, 0},
		{a, 1100, 0}, // b may have calls that run
		{b, 1200, 0}, // a may have begun some since
		{b, 1300, 0}, // a may have gone by then
		{a, 1400, 0}, // and this may have been sent before b came
		{a, 1500, 3},
		{b, 1600, 3},
	} {
		if got := x.who.tells(x.now); got != x.want {
			t.Errorf("at %d %s has %d slots, want %d", x.now, x.who.name, got, x.want)
		}
	}
}

// TestComplete_Unknown: if the number of processes is unknown, all of them are given the time to tell.
func TestComplete_Unknown(t *testing.T) {
	a := expecting(&Account{}, 0, "a")[0]
	for now := int64(1000); now <= 6000; now += 500 {
		if got := a.tells(now); got != 0 {
			t.Errorf("at %d it has %d slots", now, got)
		}
	}
	if got := a.tells(6001); got != 3 {
		t.Errorf("then it has %d slots", got)
	}
}

// TestComplete_Earlier: a process of which it is unknown when it came does not count.
func TestComplete_Earlier(t *testing.T) {
	account := &Account{Now: 1000, Began: 900, Born: 900, Epoch: 900, Members: []Member{
		{Instance: "old", Seen: 1000, Heard: 1000, Holds: []Hold{{Name: "other", Kind: Slots, Seen: 1000, High: 1, Want: 1}}},
	}}
	a := expecting(account, 1, "a")[0]
	if got := a.tells(1100); got != 0 {
		t.Errorf("beside the other alone it has %d slots", got)
	}
	if got := a.tells(1200); got != 3 {
		t.Errorf("by its own word it has %d slots", got)
	}
}

// TestComplete_Away: an account that nobody could reach for a while waits for all, however many there are: one that is gone may
// have calls that run on.
func TestComplete_Away(t *testing.T) {
	a := expecting(&Account{}, 1, "a")[0]
	a.tells(1000)
	if got := a.tells(1100); got != 3 {
		t.Fatalf("it has %d slots", got)
	}
	for _, now := range []int64{101_000, 102_000, 104_000, 106_000} {
		if got := a.tells(now); got != 0 {
			t.Errorf("at %d it has %d slots", now, got)
		}
	}
	if got := a.tells(106_001); got != 3 {
		t.Errorf("then it has %d slots", got)
	}
}

// TestDeclare: an account that was declared new grants slots at once, whenever the first process comes; and once that one has come, as any other.
func TestDeclare(t *testing.T) {
	account := &Account{}
	if !account.Declare(1000, "first") {
		t.Fatal("it was refused")
	}
	if got := account.Forget(); got != 24*60*60*1000 {
		t.Errorf("it may be dropped in %d ms", got)
	}
	a := expecting(account, 0, "a")[0]
	account.On("first")
	if got := a.tells(900_000); got != 3 {
		t.Errorf("the first process has %d slots", got)
	}
	if got := account.Forget(); got > 10_000 {
		t.Errorf("then it may be dropped in %d ms", got)
	}
	if got := a.tells(1_000_000); got != 0 {
		t.Errorf("after it was away for long it has %d slots", got)
	}
}

// TestDeclare_Restored: an account that another server has may be as it was before others were given slots, so all are given the time to tell.
func TestDeclare_Restored(t *testing.T) {
	for _, server := range []string{"", "second"} {
		account := &Account{}
		account.Declare(1000, "first")
		account.On(server)
		a := expecting(account, 1, "a")[0]
		for _, now := range []int64{2000, 4000, 6000, 7000} {
			if got := a.tells(now); got != 0 {
				t.Errorf("on %q at %d it has %d slots", server, now, got)
			}
			account.On("first") // which says no more
		}
		if got := a.tells(7001); got != 3 {
			t.Errorf("on %q then it has %d slots", server, got)
		}
	}
}

// TestDeclare_Lost: a process that knew another account has its say, whatever was declared.
func TestDeclare_Lost(t *testing.T) {
	account := &Account{}
	account.Declare(1000, "first")
	account.On("first")
	a := expecting(account, 0, "a")[0]
	a.known = 5
	if got := a.tells(2000); got != 0 {
		t.Errorf("it has %d slots", got)
	}
}

// TestDeclare_InUse: no account is declared new while a process is heard of, or slots may be in use.
func TestDeclare_InUse(t *testing.T) {
	account := &Account{}
	idle := claim(Slots, 0, 0, 0)
	tell(account, 1000, "a", 1, idle)
	if account.Declare(3500, "first") {
		t.Error("it was declared new beside a process that is heard of")
	}
	if !account.Declare(3501, "first") {
		t.Error("it was refused when nobody was heard of")
	}
	used := claim(Slots, 1, 1, 1)
	used.Tail = 9000
	tell(account, 4000, "b", 1, used)
	if account.Declare(15_500, "first") {
		t.Error("it was declared new while a call may run")
	}
	if !account.Declare(15_501, "first") {
		t.Error("it was refused when that call was over")
	}
}
