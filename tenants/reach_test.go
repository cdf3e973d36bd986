package tenants

import (
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

func TestReaches(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Upstreams = []Upstream{{Name: "u", BaseURL: "http://localhost/v1"}}
	a := DefaultPool("a", "gpt-4o")
	b := DefaultPool("b", "gpt-*", "o3")
	a.TPM = 1
	b.TPM = 1
	cfg.Pools = []Pool{a, b}
	for _, c := range []struct {
		grant string
		want  [2]bool
	}{
		{"gpt-4o", [2]bool{true, false}}, // the exact name wins over b's glob
		{"gpt-4o-mini", [2]bool{false, true}},
		{"gpt-4*", [2]bool{true, true}},
		{"o*", [2]bool{false, true}},
		{"*", [2]bool{true, true}},
	} {
		s := testkit.Must(Build(cfg, []Tenant{{Name: "t", Keys: []Key{{Hash: HashKey("k")}}, Models: []string{c.grant}}}))(t)
		for i := range s.Pools() {
			if got := s.Reaches(&s.Tenants()[0], &s.Pools()[i]); got != c.want[i] {
				t.Errorf("a grant of %q reaches pool %s: %v, want %v", c.grant, s.Pools()[i].Name, got, c.want[i])
			}
		}
	}
}
