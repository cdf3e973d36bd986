package redis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
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
	row := spend.Row{Key: spend.Key{Day: spend.DayOf(time.Now().UTC()), Tenant: "a"}, Sum: spend.Sum{spend.Calls: 1}}
	told := func() error {
		return errors.Join(s.PutSpend(t.Context(), "g", []spend.Row{row}), s.SpendRows(t.Context(), row.Day, row.Day, func(spend.Row) {}))
	}
	testkit.OK(t, told())
	for _, one := range strings.Fields("evalsha time info hmget hset hscan pexpire get set") {
		server.Do("ACL", "SETUSER", "gov", "-"+one)
		_, err := beatOn(s, "p", join("b"))
		if err == nil {
			_, err = share(s, "a", 1, parts.Slots, one)
		}
		if err == nil {
			err = told()
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

// TestCluster: the pools lie on different nodes; one whose slot moves to another node is followed,
// and one whose node is lost is lost alone.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.NewCluster(t, 3)
	s := open(t, "redis://"+nodes[0].Addr()+","+nodes[1].Addr())
	at := map[*redistest.Server][]string{}
	replies := map[string]federation.Reply{}
	for i := range 12 {
		pool := fmt.Sprintf("pool {%d}", i)
		r, err := beatOn(s, pool, join("a"))
		if err != nil || r.Status != federation.Learning {
			t.Fatalf("%s: %+v, %v", pool, r, err)
		}
		replies[pool] = r
		for _, n := range nodes {
			if strings.Contains(n.Do("KEYS", "*"), key(pool)) {
				at[n] = append(at[n], pool)
			}
		}
	}
	if len(at) != 3 {
		t.Fatalf("the pools are at %v", at)
	}

	from := nodes[0]
	to := nodes[1]
	pool := at[from][0]
	slot := from.Do("CLUSTER", "KEYSLOT", key(pool))
	id := to.Do("CLUSTER", "MYID")
	here := from.Do("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", here)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", id)
	from.Do("MIGRATE", "127.0.0.1", fmt.Sprint(to.Port()), key(pool), "0", "1000")
	first := replies[pool]
	if r, err := beatOn(s, pool, next("a", first)); err != nil || r.Status != federation.Resend || r.Epoch <= first.Epoch {
		t.Errorf("while its slot moves: %+v, %v", r, err)
	}
	for _, n := range []*redistest.Server{to, from} {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
	}
	if _, err := beatOn(s, pool, next("a", first)); err != nil {
		t.Errorf("after its slot has moved: %v", err)
	}

	lost := at[nodes[2]][0]
	kept := at[nodes[1]][0]
	nodes[2].Stop()
	if _, err := beatOn(s, lost, next("a", replies[lost])); err == nil {
		t.Error("a node that is lost has answered")
	}
	redistest.Eventually(t, "the others are there", func() bool {
		r, err := beatOn(s, kept, next("a", replies[kept]))
		return err == nil && r.Status == federation.Granted && r.Epoch == replies[kept].Epoch
	})
}

// TestSentinel: who takes over is found, and its memory is a new one.
func TestSentinel(t *testing.T) {
	t.Parallel()
	primary := redistest.New(t)
	redistest.New(t, "--replicaof", "127.0.0.1 "+fmt.Sprint(primary.Port()))
	redistest.Eventually(t, "the replica is in step", func() bool { return strings.Contains(primary.Do("INFO", "replication"), "state=online") })
	sentinel := redistest.NewSentinel(t, "m", primary)
	s := open(t, "redis+sentinel://"+sentinel.Addr()+"?master=m")
	first := beat(t, s, join("a"))
	redistest.Eventually(t, "the replica is known", func() bool { return strings.Contains(sentinel.Do("SENTINEL", "REPLICAS", "m"), "slave") })
	primary.Stop()
	redistest.Eventually(t, "another has taken over", func() bool {
		r, err := beatOn(s, "p", next("a", first))
		return err == nil && r.Status == federation.Resend && r.Epoch > first.Epoch
	})
}

// TestTLS: with the right certificates on both sides, and not else.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate(t, dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	port := fmt.Sprint(testkit.Port(t))
	redistest.New(t, "--tls-port", port, "--tls-cert-file", file("cert"), "--tls-key-file", file("key"), "--tls-ca-cert-file", file("cert"))
	url := "rediss://127.0.0.1:" + port + "?ca=" + file("cert") + "&cert=" + file("cert") + "&key=" + file("key")
	beat(t, open(t, url+"&server_name=redis.test"), join("a"))
	for why, wrong := range map[string]string{
		"certificate":          strings.Replace(url, "?ca="+file("cert")+"&", "?server_name=redis.test&", 1),
		"not redis.other":      url + "&server_name=redis.other",
		"certificate required": "rediss://127.0.0.1:" + port + "?server_name=redis.test&ca=" + file("cert"),
	} {
		s := open(t, wrong)
		// The server may close the connection before the client has read why.
		redistest.Eventually(t, "the error says "+why, func() bool {
			_, err := beatOn(s, "p", join("b"))
			if err == nil {
				t.Fatalf("%s: there is an answer", wrong)
			}
			return strings.Contains(err.Error(), why)
		})
	}
}

// certificate makes one that is its own authority, with its key.
func certificate(t *testing.T, dir string) {
	t.Helper()
	private := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis.test"}, DNSNames: []string{"redis.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert := testkit.Must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	key := testkit.Must(x509.MarshalECPrivateKey(private))(t)
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "EC PRIVATE KEY", Bytes: key}} {
		testkit.OK(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

// TestOnce: a beat whose answer is lost is not sent again, by the client of a cluster as little as
// by that of one server.
func TestOnce(t *testing.T) {
	t.Parallel()
	for _, cluster := range []bool{false, true} {
		way := newWay(t)
		var server *redistest.Server
		url := "redis://" + way.listener.Addr().String()
		if cluster {
			server = redistest.NewCluster(t, 1, "--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", fmt.Sprint(way.listener.Addr().(*net.TCPAddr).Port))[0]
			url += "?cluster=true"
		} else {
			server = redistest.New(t)
		}
		go way.run(server.Addr())
		s := open(t, url)
		first := beat(t, s, join("a"))
		server.Do("CONFIG", "RESETSTAT")
		way.deaf.Store(true)
		b := next("a", first)
		if r, err := beatOn(s, "p", b); err == nil {
			t.Errorf("cluster %v: an answer that was lost is %+v", cluster, r)
		}
		if stats := server.Do("INFO", "commandstats"); !strings.Contains(stats, "cmdstat_evalsha:calls=1,") {
			t.Errorf("cluster %v: of one beat the server has seen %s", cluster, stats)
		}
		if r := beat(t, s, b); r.Status != federation.Granted || r.Seq != b.Seq {
			t.Errorf("cluster %v: the beat came to %+v", cluster, r)
		}
	}
}

// way is a way to a server, on which an answer can be lost, with its connection.
type way struct {
	listener net.Listener
	deaf     atomic.Bool // the next answer is lost
}

func newWay(t *testing.T) *way {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return &way{listener: l}
}

func (w *way) run(to string) {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			near.Close()
			continue
		}
		go func() { _, _ = io.Copy(far, near); far.Close() }()
		go func() { w.answers(near, far); near.Close() }()
	}
}

func (w *way) answers(near, far net.Conn) {
	buf := make([]byte, 1<<16)
	for {
		n, err := far.Read(buf)
		if err != nil || w.deaf.Swap(false) {
			return
		}
		if _, err := near.Write(buf[:n]); err != nil {
			return
		}
	}
}
