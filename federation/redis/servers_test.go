package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// next is a beat after an answer.
func next(node string, r federation.Reply) *federation.Beat {
	b := join(node)
	b.Join, b.Full, b.Seq, b.Acked, b.Epoch, b.Sent, b.Joined = false, false, r.Seq+1, r.Seq, r.Epoch, r.Now, r.Now
	return b
}

// beatOn is a beat on a pool.
func beatOn(s *Store, pool string, b *federation.Beat) (federation.Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.Beat(ctx, pool, b)
}

// TestRestart: a server that was started again may lack what it had confirmed, so its memory is
// a new one; also when it has all on disk.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, disk := range []string{"no", "yes"} {
		server := redistest.New(t, "--appendonly", disk, "--appendfsync", "always")
		s := open(t, server.URL())
		first := beat(t, s, join("a"))
		if first.Status != federation.Learning {
			t.Fatalf("got %+v", first)
		}
		server.Stop()
		if _, err := beatOn(s, "p", next("a", first)); err == nil {
			t.Fatal("a server that does not run has answered")
		}
		server.Start()
		if kept := do(t, s, "EXISTS", key("p")); fmt.Sprint(kept) != map[string]string{"no": "0", "yes": "1"}[disk] {
			t.Fatalf("with appendonly %s the key is there %v times after a restart", disk, kept)
		}
		if r := beat(t, s, next("a", first)); r.Status != federation.Resend || r.Epoch <= first.Epoch {
			t.Errorf("with appendonly %s, after a restart: %+v, want to be told all in a later epoch than %d", disk, r, first.Epoch)
		}
		full := next("a", first)
		full.Full = true
		full.Expect = 0
		full.Seq = 3
		full.Epoch = beat(t, s, next("a", first)).Epoch
		if r := beat(t, s, full); r.Status != federation.Learning {
			t.Errorf("with appendonly %s, after a restart and all was told: %+v", disk, r)
		}
	}
}

// TestFlushed: what was flushed, evicted or deleted is a new memory; scripts that were are sent
// again.
func TestFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := open(t, server.URL())
	first := beat(t, s, join("a"))
	do(t, s, "SCRIPT", "FLUSH")
	second := beat(t, s, next("a", first))
	if second.Status != federation.Granted || second.Epoch != first.Epoch {
		t.Errorf("without its script the server has answered %+v", second)
	}
	if ttl := do(t, s, "PTTL", key("p")).(int64); ttl < int64(24*time.Hour/time.Millisecond) {
		t.Errorf("the account is kept for %d ms", ttl)
	}
	do(t, s, "FLUSHALL")
	if r := beat(t, s, next("a", second)); r.Status != federation.Resend || r.Epoch <= first.Epoch {
		t.Errorf("after FLUSHALL: %+v", r)
	}
}

// TestPaused: a server that stands still keeps nobody longer than it is waited for. Whether the beat
// was booked is not known, and the next one has its answer.
func TestPaused(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := open(t, server.URL())
	first := beat(t, s, join("a"))
	signal := func(s syscall.Signal) {
		testkit.OK(t, syscall.Kill(server.Pid(), s))
	}
	signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	b := next("a", first)
	gaveUp := make(chan error, 1)
	go func() {
		_, err := s.Beat(ctx, "p", b)
		gaveUp <- err
	}()
	select {
	case err := <-gaveUp:
		if err == nil {
			t.Error("a server that stands still has answered")
		}
	case <-time.After(patience):
		t.Error("a beat waits longer than its context")
	}
	signal(syscall.SIGCONT)
	b.Seq++
	redistest.Eventually(t, "the server answers again", func() bool {
		r, err := beatOn(s, "p", b)
		return err == nil && r.Status == federation.Granted && r.Epoch == first.Epoch
	})
}

// TestReplica: a replica is not asked, also not one that lets itself be written to. Once it
// has taken over, its memory is a new one, since it may lack the last writes; and so it is of who
// has been a primary before, and becomes one again.
func TestReplica(t *testing.T) {
	t.Parallel()
	primary := redistest.New(t)
	replica := redistest.New(t, "--replicaof", "127.0.0.1 "+fmt.Sprint(primary.Port()), "--replica-read-only", "no")
	a := open(t, primary.URL())
	b := open(t, replica.URL())
	synced := func(s *redistest.Server) func() bool {
		return func() bool { return strings.Contains(s.Do("INFO", "replication"), "master_link_status:up") }
	}
	redistest.Eventually(t, "the replica is in step", synced(replica))
	first := beat(t, a, join("a"))
	redistest.Eventually(t, "the replica has the account", func() bool { return replica.Do("EXISTS", key("p")) == "1" })
	if _, err := beatOn(b, "p", next("a", first)); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a replica was told a beat: %v", err)
	}
	if _, err := b.Look(context.Background(), "p"); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a replica was read: %v", err)
	}

	replica.Do("REPLICAOF", "NO", "ONE") // without a word to the primary: now there are two
	second := beat(t, b, next("a", first))
	if second.Status != federation.Resend || second.Epoch <= first.Epoch {
		t.Errorf("after a promotion: %+v, want a later epoch than %d", second, first.Epoch)
	}

	// The old primary gets the account as it was before this, and takes over without a restart.
	replica.Do("DEL", key("p"))
	do(t, a, "COPY", key("p"), "other")
	was := do(t, a, "DUMP", key("p"))
	testkit.OK(t, b.client.RestoreReplace(context.Background(), key("p"), 0, was.(string)).Err())
	primary.Do("REPLICAOF", "127.0.0.1", fmt.Sprint(replica.Port()))
	redistest.Eventually(t, "the old primary is in step", synced(primary))
	primary.Do("REPLICAOF", "NO", "ONE")
	if r := beat(t, a, next("a", first)); r.Status != federation.Resend || r.Epoch <= first.Epoch {
		t.Errorf("of a server that was primary before: %+v, want a later epoch than %d", r, first.Epoch)
	}
}

// TestRights: a user who may do no more than is documented is enough, and one who lacks one of these
// is told what it lacks.
func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	server.Do(strings.Fields("ACL SETUSER gov on >secret ~llmgov:* resetchannels -@all " + rights)...)
	s := open(t, strings.Replace(server.URL(), "redis://", "redis://gov:secret@", 1))
	first := beat(t, s, join("a"))
	if r := beat(t, s, next("a", first)); r.Status != federation.Granted {
		t.Errorf("got %+v", r)
	}
	if _, err := s.Look(context.Background(), "p"); err != nil {
		t.Error(err)
	}
	lost := next("a", federation.Reply{Seq: 9, Epoch: first.Epoch})
	if r := beat(t, s, lost); r.Status != federation.Resend { // which begins the account anew
		t.Errorf("got %+v", r)
	}
	for _, one := range strings.Fields("evalsha time info hmget hset pexpire get set") {
		server.Do("ACL", "SETUSER", "gov", "-"+one)
		_, err := beatOn(s, "p", join("b"))
		if err == nil {
			_, err = share(s, "a", 1, parts.Slots, one)
		}
		if err == nil || !strings.Contains(err.Error(), rights) {
			t.Errorf("without the right to %s: %v", one, err)
		}
		server.Do("ACL", "SETUSER", "gov", "+"+one)
	}
	if _, err := beatOn(open(t, strings.Replace(server.URL(), "redis://", "redis://gov:wrong@", 1)), "p", join("c")); err == nil || strings.Contains(err.Error(), "wrong@") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// TestRightsCluster: in a cluster the user needs to see it, and no more.
func TestRightsCluster(t *testing.T) {
	t.Parallel()
	server := redistest.NewCluster(t, 1)[0]
	server.Do(strings.Fields("ACL SETUSER gov on >secret ~llmgov:* resetchannels -@all +cluster|slots " + rights)...)
	beat(t, open(t, strings.Replace(server.URL(), "redis://", "redis://gov:secret@", 1)+"?cluster=true"), join("a"))
	docs := testkit.Must(os.ReadFile("../../docs/federation.md"))(t)
	if want := "ACL SETUSER llmgov on >PASSWORD ~llmgov:* resetchannels -@all " + rights; !strings.Contains(string(docs), want) {
		t.Errorf("docs/federation.md lacks %s", want)
	}
}

// TestFull: a server whose memory is full books nothing, and what it has stays whole.
func TestFull(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := open(t, server.URL())
	first := beat(t, s, join("a"))
	do(t, s, "CONFIG", "SET", "maxmemory", "1")
	if _, err := beatOn(s, "p", next("a", first)); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("got %v", err)
	}
	do(t, s, "CONFIG", "SET", "maxmemory", "0")
	if r := beat(t, s, next("a", first)); r.Status != federation.Granted || r.Epoch != first.Epoch {
		t.Errorf("with memory again: %+v", r)
	}
}

// TestEviction: a server that forgets what it was told is warned of, once.
func TestEviction(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	var said []string
	s := openBy(t, server.URL(), federation.DefaultRules(), func(text string) { said = append(said, text) })
	beat(t, s, join("a"))
	look := func() {
		t.Helper()
		testkit.Must(s.Look(context.Background(), "p"))(t)
	}
	do(t, s, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	look() // there is no bound on its memory
	do(t, s, "CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "noeviction")
	look()
	if len(said) > 0 {
		t.Errorf("got %q", said)
	}
	do(t, s, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	look()
	look()
	if len(said) != 1 || !strings.Contains(said[0], "maxmemory-policy is allkeys-lru") {
		t.Errorf("got %q", said)
	}
}

// TestForeign: what another release has written, or nobody of ours, is left alone.
func TestForeign(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := open(t, server.URL())
	beat(t, s, join("a"))
	rules := federation.DefaultRules()
	rules.Slots = 120
	other := openBy(t, server.URL(), rules, func(string) {})
	before := fmt.Sprint(do(t, s, "HGETALL", key("p")))
	if _, err := beatOn(other, "p", join("b")); !errors.Is(err, federation.ErrEncoding) {
		t.Errorf("by other rules: %v", err)
	}
	if after := fmt.Sprint(do(t, s, "HGETALL", key("p"))); after != before {
		t.Error("an account of other rules was changed")
	}
	do(t, s, "HSET", key("p"), "account", "\x81\xa7version\x03")
	if _, err := beatOn(s, "p", join("b")); !errors.Is(err, federation.ErrEncoding) {
		t.Errorf("of another version: %v", err)
	}
	do(t, s, "HDEL", key("p"), "account")
	if _, err := beatOn(s, "p", join("b")); !errors.Is(err, federation.ErrEncoding) {
		t.Errorf("without an account: %v", err)
	}
	do(t, s, "SET", key("p"), "x")
	if _, err := beatOn(s, "p", join("b")); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("of another type: %v", err)
	}
}

// TestDeclareOwner_Restored: what was declared of an owner is not good for the data that a server has after a restart, since these may be of before
// beats that it has lost.
func TestDeclareOwner_Restored(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := open(t, server.URL())
	asks := func(instance string) int64 {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		r := testkit.Must(s.Share(ctx, []*parts.Beat{{Owner: "o", Instance: instance, Seq: 1, Claims: []parts.Claim{{Name: "x", Kind: parts.Slots, Limit: 10, Want: 10, Tail: 9000}}}}))(t)
		return r[0].Parts[0].Part
	}
	if declared, err := s.DeclareOwner(context.Background(), "o"); err != nil || !declared {
		t.Fatal(declared, err)
	}
	server.Do("SAVE")
	if got := asks("a"); got != 10 {
		t.Errorf("the first process has %d slots", got)
	}
	server.Stop()
	server.Start()
	if server.Do("EXISTS", partsKey("o")) != "1" {
		t.Fatal("the server has not kept what was saved")
	}
	if got := asks("b"); got != 0 {
		t.Errorf("beside the one that the server has forgotten another has %d slots", got)
	}
}
