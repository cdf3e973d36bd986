package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// write writes a certificate of its own for a name, its own root, into the files.
func write(t *testing.T, f Files, name string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	must(t, os.WriteFile(f.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	must(t, os.WriteFile(f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func filesIn(dir, name string) Files {
	return Files{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
}

// TestWatched: connections have the certificate that is in the files when they are made; bad files change nothing, and are reported once.
func TestWatched(t *testing.T) {
	files := filesIn(t.TempDir(), "server")
	write(t, files, "*.example.com", 1)
	var reports []error
	w, err := Watch(files, []string{"h2", "http/1.1"}, func(err error) { reports = append(reports, err) })
	must(t, err)
	now := w.looked
	serial := func() int64 {
		now = now.Add(recheck)
		return w.current(now).Certificates[0].Leaf.SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("certificate %d at first, want 1", got)
	}
	write(t, files, "other", 200)
	if got := serial(); got != 200 {
		t.Errorf("certificate %d after a renewal, want 200", got)
	}
	for i, text := range []string{"half", "", "\n \n"} {
		must(t, os.WriteFile(files.Cert, []byte(text), 0o600))
		must(t, os.WriteFile(files.Key, []byte(text), 0o600))
		for range 2 {
			if got := serial(); got != 200 {
				t.Errorf("certificate %d beside files of %q, want 200", got, text)
			}
		}
		if len(reports) != i+1 {
			t.Errorf("reported %v, want %d errors", reports, i+1)
		}
	}
	must(t, os.Remove(files.Cert))
	write(t, files, "again", 3)
	if got := serial(); got != 3 {
		t.Errorf("certificate %d after all, want 3", got)
	}
}

// TestClientCA: with client_ca a client needs a certificate below one of its roots, and a server of the same files has one.
func TestClientCA(t *testing.T) {
	dir := t.TempDir()
	server := filesIn(dir, "server")
	stranger := filesIn(dir, "stranger")
	write(t, server, "*.example.com", 1)
	write(t, stranger, "*.example.com", 2)
	server.ClientCA = server.Cert
	w, err := Watch(server, nil, nil)
	must(t, err)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := w.Listener(plain)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Write([]byte("x"))
			}()
		}
	}()
	fails := func(config *tls.Config) bool {
		c, err := tls.Dial("tcp", l.Addr().String(), config)
		if err != nil {
			return true
		}
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
		return err != nil
	}
	own, err := Client(server)
	must(t, err)
	other, err := Client(stranger)
	must(t, err)
	other.RootCAs = own.RootCAs
	without := own.Clone()
	without.Certificates = nil
	if fails(own) {
		t.Error("a gateway with the same certificate is refused")
	}
	if !fails(other) || !fails(without) {
		t.Error("a client without a certificate of the root is served")
	}
	if c, err := w.Dial(t.Context(), "tcp", l.Addr().String()); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
}

// TestWatchRefuses: what is wrong with the files is said at the start.
func TestWatchRefuses(t *testing.T) {
	good := filesIn(t.TempDir(), "server")
	write(t, good, "a", 1)
	empty := filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for name, files := range map[string]Files{
		"no file":             filesIn(t.TempDir(), "none"),
		"another key":         {Cert: good.Cert, Key: good.Cert},
		"no root of clients":  {Cert: good.Cert, Key: good.Key, ClientCA: good.Key},
		"roots that are gone": {Cert: good.Cert, Key: good.Key, ClientCA: good.Key + "s"},
		"an empty root":       {Cert: good.Cert, Key: good.Key, ClientCA: empty},
		"nothing":             {Cert: empty, Key: empty},
	} {
		if _, err := Watch(files, nil, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
