package extproc

import (
	"net/http"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Source is where a call names its tenant. The zero Source is the call's key.
type Source struct {
	Header string // its name
	// Namespace and Path lead to a text in the metadata of other filters.
	Namespace string
	Path      []string
}

// ParseSource reads "key", "header NAME" or "metadata NAMESPACE PATH", where PATH has dots between its names.
func ParseSource(text string) (s Source, ok bool) {
	f := strings.Fields(text)
	switch {
	case len(f) == 0, len(f) == 1 && f[0] == "key":
		return Source{}, true
	case len(f) == 2 && f[0] == "header":
		return Source{Header: http.CanonicalHeaderKey(f[1])}, true
	case len(f) == 3 && f[0] == "metadata":
		return Source{Namespace: f[1], Path: strings.Split(f[2], ".")}, true
	}
	return Source{}, false
}

// isKey reports whether calls show their tenant by a key.
func (s *Source) isKey() bool { return s.Header == "" && s.Namespace == "" }

// String says where the name has to stand.
func (s *Source) String() string {
	if s.Header != "" {
		return "header " + s.Header
	}
	return "metadata " + s.Namespace + " " + strings.Join(s.Path, ".")
}

// tenant is the name; "" if there is none.
func (s *Source) tenant(h http.Header, m *corev3.Metadata) string {
	if s.Header != "" {
		if values := h[s.Header]; len(values) == 1 { // of two, a client may have sent one
			return values[0]
		}
		return ""
	}
	at := m.GetFilterMetadata()[s.Namespace]
	for i, name := range s.Path {
		v := at.GetFields()[name]
		if i == len(s.Path)-1 {
			return v.GetStringValue()
		}
		at = v.GetStructValue()
	}
	return ""
}
