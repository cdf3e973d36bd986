package litellm

import (
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// TestConvert_Upstreams looks at what the loader makes of several deployments of a model.
func TestConvert_Upstreams(t *testing.T) {
	text := testkit.Must(os.ReadFile("testdata/azure.yaml"))(t)
	r := testkit.Must(convert("azure.yaml", string(text)))(t)
	s := testkit.Must(load(r.Files))(t)
	pool, _ := s.PoolOf("gpt-4-turbo")
	if pool.Name != "gpt-4o" || pool.TPM != 2_150_000 || pool.RPM != 12_500 || s.RealModel("gpt-4") != "gpt-4o" {
		t.Errorf("the pool is %+v", pool)
	}
	want := []tenants.PoolUpstream{
		{Name: "openai", Weight: 2},
		{Name: "azure-contoso-sweden", Weight: 1},
		{Name: "azure-contoso-france", Weight: 1},
		{Name: "azure-contoso-canada", Weight: 1, Models: map[string]string{"gpt-4o": "gpt-4o-canada"}},
	}
	if diff := cmp.Diff(want, pool.Upstreams); diff != "" {
		t.Errorf("upstreams (-want +got):\n%s", diff)
	}
	if s.RealModel("gpt-4o-mini") != "mini-prod" {
		t.Errorf("Azure is asked for %s, not for its deployment", s.RealModel("gpt-4o-mini"))
	}
	app, _ := s.TenantByName("app")
	labs, _ := s.TenantByName("labs")
	if !app.MayUse("gpt-4o-mini") || app.MayUse("o3") || !labs.MayUse("gpt-4") || labs.MayUse("gpt-4o-mini") {
		t.Errorf("grants: app %v, labs %v", app.Models, labs.Models)
	}
}

// TestAzureBase: the ways in which configs say where a resource is.
func TestAzureBase(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{`api_base: "https://r.openai.azure.com/", api_version: "2024-10-21"`, "https://r.openai.azure.com?api-version=2024-10-21"},
		{`api_base: "https://r.openai.azure.com/openai/", api_version: "2024-10-21"`, "https://r.openai.azure.com?api-version=2024-10-21"},
		{`api_base: "https://r.openai.azure.com/openai/v1/", api_version: preview`, "https://r.openai.azure.com"},
		{`api_base: "https://r.openai.azure.com", api_version: v1`, "https://r.openai.azure.com"},
		{`api_base: "https://r.openai.azure.com"`, "https://r.openai.azure.com"},
		{`base_url: "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-06-01"`, "https://r.openai.azure.com?api-version=2024-06-01"},
		{`api_base: "https://gw.example/azure", api_version: "2024-10-21"`, "https://gw.example/azure?api-version=2024-10-21"},
		{`api_base: os.environ/BASE, api_version: os.environ/VERSION`, "${BASE}?api-version=${VERSION}"},
		{`api_key: k`, "${AZURE_API_BASE}"},
	} {
		r, err := convert("c.yaml", "model_list: [{model_name: m, litellm_params: {model: azure/m, rpm: 1, "+c.params+"}}]")
		if err != nil {
			t.Errorf("%s: %v", c.params, err)
			continue
		}
		if _, err := load(r.Files); err != nil {
			t.Errorf("%s: %v", c.params, err)
		}
		if want := "base_url: " + quote(c.want) + "\n    kind: azure\n"; !strings.Contains(r.Files[0].Text, want) {
			t.Errorf("%s: want %s in\n%s", c.params, want, r.Files[0].Text)
		}
	}
}

// TestWhole: weights are whole, from 1 to 1000, the largest stays the largest, and proportions that can be kept are.
func TestWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.SliceOfN(rapid.Int64Range(1, maxWeight), 1, 8).Draw(t, "small")
		factor := big.NewRat(rapid.Int64Range(1, 1e9).Draw(t, "factor"), rapid.Int64Range(1, 1000).Draw(t, "part"))
		var parts []*big.Rat
		for _, n := range small {
			parts = append(parts, new(big.Rat).Mul(big.NewRat(n, 1), factor))
		}
		got := whole(parts)
		for i := range got {
			if got[i] < 1 || got[i] > maxWeight || got[i]*small[0] != got[0]*small[i] {
				t.Fatalf("%v become %v", small, got)
			}
		}
	})
	for _, c := range []struct{ parts, want []int64 }{{[]int64{1_000_001, 1}, []int64{1000, 1}}, {[]int64{999_999, 500_001}, []int64{1000, 500}}} {
		if got := whole([]*big.Rat{big.NewRat(c.parts[0], 1), big.NewRat(c.parts[1], 1)}); !cmp.Equal(got, c.want) {
			t.Errorf("%v become %v, want %v", c.parts, got, c.want)
		}
	}
}
