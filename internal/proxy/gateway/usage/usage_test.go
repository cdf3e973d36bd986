package usage

import (
	"slices"
	"testing"

	"github.com/llmgov/llmgov/tenants"
)

func TestAncestors(t *testing.T) {
	list := []tenants.Tenant{
		{Name: "acme", Parent: -1},
		{Name: "acme/search", Parent: 0},
		{Name: "acme/search/eu", Parent: 1},
		{Name: "bob", Parent: -1},
	}
	for i, want := range [][]string{nil, {"acme"}, {"acme/search", "acme"}, nil} {
		if got := ancestors(list, &list[i]); !slices.Equal(got, want) {
			t.Errorf("above %s are %q, want %q", list[i].Name, got, want)
		}
	}
}
