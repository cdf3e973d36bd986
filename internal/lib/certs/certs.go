// Package certs serves TLS by certificates in files, and follows the files: a server that renews its certificate writes new files, and
// connections made after that have the new one. Connections that are open stay.
package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// Files are the files of a listener, in PEM.
type Files struct {
	Cert string // the certificate, followed by those between it and its root
	Key  string // its private key
	// ClientCA has the roots of clients' certificates, which every client must then present. "" asks for none.
	ClientCA string
}

// recheck is how long the files are taken for unchanged after a look at them.
const recheck = time.Second

// Watched is the TLS of a listener as its files have it; nil is without. Its methods may be called from any goroutine.
type Watched struct {
	files     Files
	protocols []string
	report    func(error)

	mu     sync.Mutex
	config *tls.Config // of the last good files
	stamps [3]stamp
	looked time.Time
}

// stamp tells a version of a file from another.
type stamp struct {
	changed time.Time
	size    int64
}

// Watch reads the files. protocols are those of ALPN, the best first. report is told, once for each change, why changed files cannot be
// used; connections have the certificate from before until they can.
func Watch(files Files, protocols []string, report func(error)) (*Watched, error) {
	w := &Watched{files: files, protocols: protocols, report: report, looked: time.Now()}
	w.stamps = files.stamps()
	config, err := w.load()
	if err != nil {
		return nil, err
	}
	w.config = config
	return w, nil
}

// Listener lets a listener speak TLS.
func (w *Watched) Listener(l net.Listener) net.Listener {
	if w == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return w.current(time.Now()), nil },
	})
}

// Expires is when the certificate in force ends.
func (w *Watched) Expires() time.Time { return w.current(time.Now()).Certificates[0].Leaf.NotAfter }

// current looks at the files if the last look is long ago.
func (w *Watched) current(now time.Time) *tls.Config {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.looked) < recheck {
		return w.config
	}
	w.looked = now
	stamps := w.files.stamps()
	if stamps == w.stamps {
		return w.config
	}
	w.stamps = stamps
	config, err := w.load()
	if err != nil {
		w.report(err)
		return w.config
	}
	w.config = config
	return config
}

func (f Files) stamps() (list [3]stamp) {
	for i, name := range []string{f.Cert, f.Key, f.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			list[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return list
}

func (w *Watched) load() (*tls.Config, error) {
	config, err := Load(w.files.ClientCA, w.files.Cert, w.files.Key)
	switch {
	case err != nil && w.files.ClientCA != "":
		return nil, fmt.Errorf("certificate %s with key %s and clients' ca %s: %w", w.files.Cert, w.files.Key, w.files.ClientCA, err)
	case err != nil:
		return nil, fmt.Errorf("certificate %s with key %s: %w", w.files.Cert, w.files.Key, err)
	}
	config.NextProtos = w.protocols
	if w.files.ClientCA != "" {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = config.RootCAs
	}
	return config, nil
}

// Load is Parse of files, of which "" is none. An empty file, which one is that is being written, is an error: it would do as none.
func Load(ca, cert, key string) (*tls.Config, error) {
	var texts [3][]byte
	for i, name := range [...]string{ca, cert, key} {
		if name == "" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if Empty(data) {
			return nil, fmt.Errorf("%s is empty", name)
		}
		texts[i] = data
	}
	return Parse(texts[0], texts[1], texts[2])
}

// Empty reports whether a file has nothing in it but white space.
func Empty(data []byte) bool { return len(bytes.TrimSpace(data)) == 0 }

// Parse is the TLS of one side by texts in PEM: the roots that the other side's certificate must come from, or none for those of the
// system, and the certificate that is shown to it, followed by those between it and its root, with its key, or neither.
func Parse(ca, cert, key []byte) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("ca has no certificate in PEM")
		}
	}
	if len(cert) == 0 && len(key) == 0 {
		return c, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, errors.New("cert and key are no pair: " + strings.TrimPrefix(err.Error(), "tls: "))
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// Client is the TLS of a client of servers with the same certificate, whatever address they are called by: it trusts what the system trusts, and
// whatever is in the file of the certificate. It presents the certificate to servers that ask for one.
func Client(files Files) (*tls.Config, error) {
	c, err := Load("", files.Cert, files.Key)
	if err != nil {
		return nil, err
	}
	pair := &c.Certificates[0]
	c.RootCAs, err = x509.SystemCertPool()
	if err != nil {
		c.RootCAs = x509.NewCertPool()
	}
	for _, der := range pair.Certificate {
		one, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", files.Cert, err)
		}
		c.RootCAs.AddCert(one)
	}
	c.ServerName, err = nameOf(pair.Leaf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.Cert, err)
	}
	return c, nil
}

// nameOf is a name that a certificate is for.
func nameOf(leaf *x509.Certificate) (string, error) {
	switch {
	case len(leaf.DNSNames) > 0:
		return strings.Replace(leaf.DNSNames[0], "*", "any", 1), nil
	case len(leaf.IPAddresses) > 0:
		return leaf.IPAddresses[0].String(), nil
	}
	return "", errors.New("the certificate names no server")
}

// Dial connects to a server with the same certificate, see [Client].
func (w *Watched) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if w == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	config, err := Client(w.files)
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
}
