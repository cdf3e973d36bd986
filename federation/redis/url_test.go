package redis

import (
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/federation"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		url   string
		hosts string
		want  address
	}{
		{"redis://h", "h:6379", address{}},
		{"redis://u:p%40@h:1/2", "h:1", address{user: "u", password: "p@", db: 2}},
		{"redis://:p@h/", "h:6379", address{password: "p"}},
		{"redis://a,b:7", "a:6379 b:7", address{cluster: true}},
		{"redis://a:1,b:7", "a:1 b:7", address{cluster: true}},
		{"redis://u:p@h?cluster=true", "h:6379", address{user: "u", password: "p", cluster: true}},
		{"redis://[::1]:5", "[::1]:5", address{}},
		{"redis://[::1]", "[::1]:6379", address{}},
		{"redis+sentinel://u:p@a,b:7/3?master=m&sentinel_user=x&sentinel_password=y", "a:26379 b:7", address{
			user: "u", password: "p", db: 3, sentinel: true, master: "m", sentinelUser: "x", sentinelPassword: "y",
		}},
	} {
		got, err := parse(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if hosts := strings.Fields(c.hosts); !slices.Equal(got.hosts, hosts) {
			t.Errorf("%s: hosts %v, want %v", c.url, got.hosts, hosts)
		}
		got.hosts = nil
		if !equal(got, &c.want) {
			t.Errorf("%s: %+v, want %+v", c.url, got, c.want)
		}
	}
	for _, scheme := range []string{"rediss", "rediss+sentinel"} {
		if a, err := parse(scheme + "://h?server_name=x" + map[string]string{"rediss+sentinel": "&master=m"}[scheme]); err != nil || a.tls == nil || a.tls.ServerName != "x" {
			t.Errorf("%s: %+v, %v", scheme, a, err)
		}
	}
}

func equal(a, b *address) bool {
	return a.user == b.user && a.password == b.password && a.db == b.db && a.cluster == b.cluster && a.sentinel == b.sentinel &&
		a.master == b.master && a.sentinelUser == b.sentinelUser && a.sentinelPassword == b.sentinelPassword && a.tls == nil
}

// TestURL: what is wrong with an address is said without its password.
func TestURL(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:secret@h:port":          "not a URL",
		"http://u:secret@h":                "http:// is not a scheme",
		"redis://u:secret@":                "a host is missing",
		"redis://u:secret@a,,b":            "a host is missing",
		"redis://u:secret@h/x":             "/x is not the number of a database",
		"redis://u:secret@h/-1":            "/-1 is not the number of a database",
		"redis://u:12/secret@h":            "has an @ behind its host",
		"redis://u:12?secret@h":            "has an @ behind its host",
		"redis://u:secret@a,b/1":           "database 0 only",
		"redis+sentinel://u:secret@h":      "belong together",
		"redis://u:secret@h?master=m":      "belong together",
		"redis://u:secret@h?ca=x":          "?ca= says nothing in this address",
		"rediss://u:secret@h?ca=/none":     "/none: no such file",
		"rediss://u:secret@h?cert=/none":   "/none: no such file",
		"redis://u:secret@h?pool_size=100": "?pool_size= says nothing",
	} {
		_, err := Open(url, federation.DefaultRules(), nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}
