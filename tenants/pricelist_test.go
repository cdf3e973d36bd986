package tenants

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// An entry of LiteLLM's price map, with what it says of tiers, batches and long prompts.
func TestPriceList_Reads(t *testing.T) {
	list := testkit.Must(ReadPriceList([]byte(`{
		"sample_spec": {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0, "litellm_provider": "one of them"},
		"by_the_second": {"input_cost_per_second": 0.0001},
		"odd": {"input_cost_per_token": -1, "output_cost_per_token": 1},
		"m": {"input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, "cache_read_input_token_cost": 3e-07,
			"cache_creation_input_token_cost": 3.75e-06, "cache_creation_input_token_cost_above_1hr": 6e-06, "input_cost_per_audio_token": 1e-05,
			"input_cost_per_token_above_200k_tokens": 6e-06, "output_cost_per_token_above_200k_tokens": 2.25e-05,
			"cache_creation_input_token_cost_above_200k_tokens": 7.5e-06, "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 1.2e-05,
			"input_cost_per_token_above_1000k_tokens": 9e-06,
			"input_cost_per_token_flex": 1.5e-06, "output_cost_per_token_flex": 7.5e-06, "input_cost_per_token_priority": 6e-06,
			"input_cost_per_token_batches": 1.5e-06, "output_cost_per_token_batches": 7.6e-06, "input_cost_per_request": 0.014,
			"search_context_cost_per_query": {"search_context_size_low": 0.005, "search_context_size_medium": 0.01},
			"file_search_cost_per_1k_calls": 2.5, "code_interpreter_cost_per_session": 0.03, "max_tokens": 8192},
		"thirds": {"input_cost_per_token": 1.5e-07, "output_cost_per_token": 6e-07, "input_cost_per_token_priority": 2.5e-07, "output_cost_per_token_priority": 1e-06,
			"input_cost_per_token_flex": 1.1e-07, "input_cost_per_token_batches": 7.5e-08}
	}`)))(t)
	usual := Price{
		Input: 3e6, CachedInput: 3e5, CacheWrite: 3_750_000, CacheWriteHour: 6e6, AudioInput: 1e7, ImageInput: 3e6,
		Output: 15e6, AudioOutput: 15e6, ImageOutput: 15e6,
	}
	long := usual
	long.Input, long.CacheWrite, long.CacheWriteHour, long.ImageInput = 6e6, 7_500_000, 12e6, 6e6
	long.Output, long.AudioOutput, long.ImageOutput = 22_500_000, 22_500_000, 22_500_000
	longest := usual
	longest.Input, longest.ImageInput = 9e6, 9e6
	want := usual
	want.Above = []terms.Above{{Context: 200_000, Price: long}, {Context: 1_000_000, Price: longest}}
	want.Tiers = []terms.Tier{{Name: "flex", Factor: 500}, {Name: "priority", Factor: 2000}, {Name: "fast", Factor: 2000}, {Name: "batch", Factor: 38, Of: 75}}
	want.Call = 14_000
	want.Tool, want.FileSearch, want.CodeSession = 10_000, 2500, 30_000
	for _, p := range list {
		switch p.Model {
		case "m":
			if diff := cmp.Diff(want, p.Price); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		case "thirds":
			for tier, want := range map[string]terms.Tier{"priority": {Factor: 5, Of: 3}, "fast": {Factor: 5, Of: 3}, "flex": {Factor: 11, Of: 15}, "batch": {Factor: 500}} {
				want.Name = tier
				if !slices.Contains(p.Tiers, want) {
					t.Errorf("it has tiers %+v, want %+v", p.Tiers, want)
				}
			}
			if got := p.MicroUSD(terms.Usage{Input: 123_000, Output: 4500, Tier: "priority"}); got != 35_250 {
				t.Errorf("a call costs %d, want 123000 × 0.25 + 4500 × 1", got)
			}
		case "sample_spec":
		default:
			t.Errorf("%s has a price", p.Model)
		}
	}
}

// A model has the price of its own entry, else that of the file, else the built-in one, and else that of an entry for any model.
func TestPriceList_Order(t *testing.T) {
	fsys := fstest.MapFS{
		"c/llmgov.yaml": {Data: []byte(`
upstreams: {a: {base_url: "http://a"}}
pools:
  p: {models: [gpt-4o, gpt-4o-mini, claude-opus-4-6, own-1, other, {smart: claude-sonnet-4-5}, {gpt-5: gpt-4o}, "zz-*"], upstream: a, tpm: 9, budgets: [{usd: 1, per: day}]}
prices:
  file: ../prices.json
  builtin: true
  "own-*": {input: 1, output: 1}
  "*": {input: 9, output: 9}
`)},
		"c/tenants/a.yaml": {Data: []byte(goodPolicy)},
		"prices.json": {Data: []byte(`{"gpt-4o": {"input_cost_per_token": 2e-06, "output_cost_per_token": 0}, "own-1": {"input_cost_per_token": 2e-06, "output_cost_per_token": 0},
			"claude-sonnet-4-5": {"input_cost_per_token": 7e-06, "output_cost_per_token": 0}, "zz-1": {"input_cost_per_token": 1e-06, "output_cost_per_token": 0}, "not-served": {"input_cost_per_token": 0, "output_cost_per_token": 0}}`)},
	}
	l := &loader{fsys: fsys, config: "c/llmgov.yaml", shown: "c/llmgov.yaml", more: map[string]string{}}
	s := testkit.Must(load(l))(t)
	for model, want := range map[string]int64{
		"own-1": 1e6, "gpt-4o": 2e6, "claude-opus-4-6": 5e6, "gpt-4o-mini": 150_000, "other": 9e6,
		"smart": 7e6, // that of its model
		"gpt-5": 2e6, // an alias costs what its model does, whatever lists say of the name
	} {
		if p := s.Price(model); p == nil || p.Input != want {
			t.Errorf("%s costs %+v, want an input of %d", model, p, want)
		}
	}
	if n := len(s.Config().Listed); n != 7 {
		t.Errorf("%d listed prices are kept, want those of served models", n)
	}
	for model, want := range map[string]string{"own-1": "own-1", "zz-1": "zz-1", "zz-2": "zz-*", "elsewhere": OtherModels} {
		if got := s.CountedModel(model); got != want {
			t.Errorf("%s is counted as %s, want %s", model, got, want)
		}
	}
	before := l.sum()
	if l.look(l.globs) != before {
		t.Error("what was loaded is not what is looked at")
	}
	fsys["prices.json"] = &fstest.MapFile{Data: []byte(`{"gpt-4o": {"input_cost_per_token": 3e-06, "output_cost_per_token": 0}}`)}
	if l.look(l.globs) == before {
		t.Error("a change of the list is not seen")
	}
	if p := testkit.Must(load(l))(t).Price("gpt-4o"); p.Input != 3e6 {
		t.Errorf("after the change it costs %+v", p)
	}
}

// The list that comes with llmgov has the models that most ask for, at prices that are plausible.
func TestPriceList_Builtin(t *testing.T) {
	for _, p := range builtinPrices() {
		if p.Input <= 0 || p.Input > 200e6 || p.CachedInput > p.Input || p.CacheWriteHour < p.CacheWrite || p.factorOf("batch") > 1000 {
			t.Errorf("%s costs %+v", p.Model, p.Price)
		}
	}
	for _, model := range []string{"gpt-5", "gpt-4o-mini", "claude-opus-4-6", "claude-haiku-4-5-20251001", "gemini-2.5-pro", "gpt-image-1", "text-embedding-3-small"} {
		if !isBuiltin(model) {
			t.Errorf("%s is missing", model)
		}
	}
}

func (p *ModelPrice) factorOf(tier string) int64 {
	for _, t := range p.Tiers {
		if t.Name == tier {
			return t.Factor
		}
	}
	return 1000
}
