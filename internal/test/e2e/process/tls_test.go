package process

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// certificate writes a certificate for this machine, its own root, and its key into a folder, and returns it.
func certificate(t *testing.T, dir string, serial int64) *x509.Certificate {
	t.Helper()
	key := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	about := &x509.Certificate{SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert := testkit.Must(x509.CreateCertificate(rand.Reader, about, about, key.Public(), key))(t)
	private := testkit.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	processtest.Write(t, dir, map[string]string{
		"tls.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})),
		"tls.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	})
	return testkit.Must(x509.ParseCertificate(cert))(t)
}

// TestTLS: with one certificate for all listeners clients call over HTTP/1.1 and HTTP/2, programs reserve by gRPC and JSON, commands find
// the admin side, and while the certificate is renewed no call fails.
func TestTLS(t *testing.T) {
	dir := newFolder(t, upstream(t), "tpm: 1000000", "tls: {cert: tls.crt, key: tls.key}\nadmission: {listen: \"127.0.0.1:0\", token: token-of-admission}\n")
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, dir, 1))
	p := processtest.Start(t, dir, config)
	trust := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}

	var http1, http2 http.Protocols
	http1.SetHTTP1(true)
	http2.SetHTTP2(true)
	call := func(protocols *http.Protocols) (proto string, serial int64, err error) {
		transport := &http.Transport{TLSClientConfig: trust.Clone(), Protocols: protocols, DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, p.Data+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)))(t)
		req.Header.Set("Authorization", "Bearer key-of-a")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return "", 0, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", resp.Proto, resp.StatusCode)
		}
		return resp.Proto, resp.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
	}
	for want, protocols := range map[string]*http.Protocols{"HTTP/1.1": &http1, "HTTP/2.0": &http2} {
		if proto, _, err := call(protocols); err != nil || proto != want {
			t.Errorf("%s, %v; want %s", proto, err, want)
		}
	}

	governed := testkit.Must(remote.Dial(strings.TrimPrefix(p.Admission, "https://"), remote.Options{Token: "token-of-admission", TLS: trust.Clone()}))(t)
	defer func() { _ = governed.Shutdown(t.Context()) }()
	nothing := func(context.Context, *client.Lease) (client.Usage, error) { return client.Usage{Input: 1}, nil }
	testkit.OK(t, governed.Do(t.Context(), client.Request{Tenant: "a", Pool: "p", Model: "m"}, nothing))
	request := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, p.Admission+"/openapi.json", http.NoBody))(t)
	request.Header.Set("Authorization", "Bearer token-of-admission")
	json := http.Client{Transport: &http.Transport{TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	resp := testkit.Must(json.Do(request))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("JSON at the admission side: status %d", resp.StatusCode)
	}
	processtest.Command{Dir: t.TempDir(), Env: []string{"SSL_CERT_FILE=" + filepath.Join(dir, "tls.crt")}, Args: []string{"tenants", "--admin", p.Admin}}.Start(t).EndsWith(t, 0)

	roots.AddCert(certificate(t, dir, 2))
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			processtest.Until(t, func() error {
				_, serial, err := call(&http2)
				if err != nil {
					t.Errorf("during the renewal: %v", err)
				}
				if serial != 2 {
					return fmt.Errorf("certificate %d, want that of the renewal", serial)
				}
				return nil
			})
		})
	}
	calls.Wait()
}

// TestTLS_Upstream: an upstream with a root of its own is trusted by it alone, is shown the gateway's certificate, and finds the renewed one soon.
func TestTLS_Upstream(t *testing.T) {
	var shown atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(r.TLS.PeerCertificates[0].SerialNumber.Int64())
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	theirs, ours := t.TempDir(), t.TempDir()
	certificate(t, theirs, 1)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{testkit.Must(tls.LoadX509KeyPair(filepath.Join(theirs, "tls.crt"), filepath.Join(theirs, "tls.key")))(t)},
		ClientAuth:   tls.RequireAnyClientCert,
	}
	server.StartTLS()
	defer server.Close()
	certificate(t, ours, 7)
	dir := newFolder(t, fmt.Sprintf("%q, tls: {ca: %q, cert: %q, key: %q}", server.URL+"/v1", filepath.Join(theirs, "tls.crt"), filepath.Join(ours, "tls.crt"), filepath.Join(ours, "tls.key")), "tpm: 1000000", "")
	p := processtest.Start(t, dir, config)
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	for _, serial := range []int64{7, 8} {
		certificate(t, ours, serial)
		processtest.Until(t, func() error {
			if a := processtest.Ask(t, http.MethodPost, p.Data+"/v1/chat/completions", "key-of-a", body); a.Status != http.StatusOK {
				t.Fatalf("status %d: %s", a.Status, a.Body)
			}
			if shown.Load() != serial {
				return fmt.Errorf("certificate %d was shown, want %d", shown.Load(), serial)
			}
			return nil
		})
	}
	certificate(t, theirs, 2) // which the server does not have
	processtest.Until(t, func() error {
		if a := processtest.Ask(t, http.MethodPost, p.Data+"/v1/chat/completions", "key-of-a", body); a.Status != http.StatusBadGateway {
			return fmt.Errorf("status %d of an upstream with another root", a.Status)
		}
		return nil
	})
}
