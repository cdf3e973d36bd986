package tenants

import (
	"crypto/tls"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/certs"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
)

// UpstreamTLS is how an upstream at https is trusted, and how llmgov shows there who it is. The zero value trusts what the system trusts, and
// shows nothing. Its texts are PEM; a config names files that have them, which are followed like the config.
type UpstreamTLS struct {
	// CA has the roots that the upstream's certificate must come from, instead of the system's.
	CA string
	// Cert is the certificate that is shown to the upstream, followed by those between it and its root; Key is its private key.
	Cert, Key string
}

var upstreamTLSShape = shape[UpstreamTLS]{Fields: []field[UpstreamTLS]{
	pemField("ca", "The file of the roots that its certificate must come from, in PEM. Left out: those of the system.", func(t *UpstreamTLS) *string { return &t.CA }),
	pemField("cert", "The file of the certificate that is shown to it, in PEM.", func(t *UpstreamTLS) *string { return &t.Cert }),
	pemField("key", "The file of that one's private key.", func(t *UpstreamTLS) *string { return &t.Key }),
}}

var upstreamTLSField = field[Upstream]{
	Name: "tls", About: "How an upstream at https is trusted, and who llmgov shows itself to be there. The files are followed like the config.",
	Kind: func() schema { return upstreamTLSShape.Schema(&UpstreamTLS{}) },
	Read: func(v value, u *Upstream) { upstreamTLSShape.Read(v, &u.TLS) },
}

func pemField(name, about string, at func(*UpstreamTLS) *string) field[UpstreamTLS] {
	return field[UpstreamTLS]{
		Name: name, About: about, Kind: strictyaml.TextKind(`^\S(.*\S)?$`),
		Read: func(v value, t *UpstreamTLS) {
			text, ok := v.Scalar()
			if !ok {
				return
			}
			if text == "" {
				v.Problem("names no file; write one such as /etc/llmgov/ca.pem, or remove the line")
			}
			*at(t) = text
		},
	}
}

// Client is the TLS of a client of the upstream, or nil where that is Go's own.
func (t *UpstreamTLS) Client() (*tls.Config, error) {
	if *t == (UpstreamTLS{}) {
		return nil, nil
	}
	return certs.Parse([]byte(t.CA), []byte(t.Cert), []byte(t.Key))
}

// check complains about what is set of an upstream's TLS, and can be none.
func (u *Upstream) checkTLS() string {
	if u.TLS == (UpstreamTLS{}) {
		return ""
	}
	if scheme, _, _ := strings.Cut(u.BaseURL, "://"); strings.EqualFold(scheme, "http") {
		return "is for an upstream without TLS; write https:// in base_url, or remove tls"
	}
	if _, err := u.TLS.Client(); err != nil {
		return "cannot be used: " + err.Error()
	}
	return ""
}

// upstreamTLS reads the files of an upstream's TLS in the places of their names.
func (l *loader) upstreamTLS(u *Upstream) {
	if l.opt.WithoutSecrets {
		u.TLS = UpstreamTLS{}
		return
	}
	path := strictyaml.Child(strictyaml.Child("upstreams", u.Name), "tls")
	good := true
	for name, at := range map[string]*string{"ca": &u.TLS.CA, "cert": &u.TLS.Cert, "key": &u.TLS.Key} {
		if *at == "" {
			continue
		}
		file := l.beside(*at)
		l.secretFiles = append(l.secretFiles, file)
		data, err := l.readFile(file)
		if err != nil {
			l.r.At(strictyaml.Child(path, name), "%s cannot be read: %v; name a file that this process may read", strictyaml.Show(*at), disk.Reason(err))
			good = false
		} else if certs.Empty(data) {
			l.r.At(strictyaml.Child(path, name), "%s is empty; write %s there in PEM, or remove the line", strictyaml.Show(*at), name)
			good = false
		}
		*at = string(data)
	}
	if complaint := u.checkTLS(); good && complaint != "" {
		l.r.At(path, "%s", complaint)
	}
}
