package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

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
