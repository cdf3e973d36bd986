package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// measureStreamsOverTLS writes what an idle stream holds if llmgov reaches the model server by TLS, for two versions of HTTP.
func measureStreamsOverTLS(ctx context.Context, w io.Writer, o options) error {
	dir, err := os.MkdirTemp("", "llmgov-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.tls = filepath.Join(dir, "certificate.pem")
	if err := writeCertificate(o.tls); err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	o.http2 = true
	if err := measureStreamOverTLS(ctx, out, o, "HTTP/2"); err != nil {
		return err
	}
	o.http2 = false
	if err := measureStreamOverTLS(ctx, out, o, "HTTP/1.1"); err != nil {
		return err
	}
	return out.Flush()
}

func measureStreamOverTLS(ctx context.Context, w io.Writer, o options, protocol string) error {
	targets, closeAll, err := startAll(ctx, o)
	if err != nil {
		return err
	}
	t := targets[governed]
	if err := callOnce(ctx, t); err != nil {
		return errors.Join(err, closeAll())
	}
	stream := standstills[0]
	before, after, err := stream.measure(ctx, t)
	if err == nil {
		writeEach(w, fmt.Sprintf("%s, %s over TLS to the upstream (of %d)", stream.title, protocol, stream.calls), stream.calls, before, after)
	}
	return errors.Join(err, closeAll())
}

// serveSecurely serves a handler by TLS as well, as llmgov does it: on net/http. It returns where, and how to end that.
func serveSecurely(h http.Handler) (url string, end func() error, err error) {
	certificate, key, err := newCertificate()
	if err != nil {
		return "", nil, err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}})
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	return "https://" + l.Addr().String(), server.Close, nil
}

// newCertificate makes a certificate for this machine, which is its own authority, and its key.
func newCertificate() (certificate []byte, key *ecdsa.PrivateKey, err error) {
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	certificate, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return certificate, key, err
}

// writeCertificate writes such a certificate and its key.
func writeCertificate(file string) error {
	certificate, key, err := newCertificate()
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	return os.WriteFile(file, text, 0o600)
}
