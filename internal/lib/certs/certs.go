// Package certs serves TLS by certificates in files, and follows the files: a server that renews its certificate writes new files, and
// connections made after that have the new one. Connections that are open stay.
package certs

import (
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
	pair, err := tls.LoadX509KeyPair(w.files.Cert, w.files.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", w.files.Cert, w.files.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: w.protocols, Certificates: []tls.Certificate{pair}}
	if w.files.ClientCA == "" {
		return config, nil
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = x509.NewCertPool()
	return config, addFile(config.ClientCAs, w.files.ClientCA)
}

// addFile adds the certificates of a file to a pool.
func addFile(pool *x509.CertPool, name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !pool.AppendCertsFromPEM(data) {
		return fmt.Errorf("%s has no certificate in PEM", name)
	}
	return nil
}

// Client is the TLS of a client of servers with the same certificate, whatever address they are called by: it trusts what the system trusts, and
// whatever is in the file of the certificate. It presents the certificate to servers that ask for one.
func Client(files Files) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if err := addFile(roots, files.Cert); err != nil {
		return nil, err
	}
	name, err := nameOf(pair.Leaf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.Cert, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: name, Certificates: []tls.Certificate{pair}}, nil
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
