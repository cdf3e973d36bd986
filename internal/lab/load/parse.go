package load

import (
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/lab/distribution"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

const (
	// MaxRate and MaxBurst bound the calls of one tenant, MaxTenants the tenants, because each
	// has histograms of its own.
	MaxRate    = 100_000
	MaxBurst   = 100_000
	MaxTenants = 200
	// MaxTokens bounds prompts and answers, Longest runs and the intervals in them.
	MaxTokens = 1 << 20
	Longest   = 24 * time.Hour
)

// The keywords of files and flags.
var (
	ArrivalWords = map[string]Arrivals{"poisson": Poisson, "constant": Constant}
	RetryWords   = map[string]Retry{"none": RetryNone, "hinted": RetryHinted, "sdk": RetrySDK}
	PathWords    = map[string]Path{"chat": Chat, "responses": Responses, "messages": Messages, "embeddings": Embeddings}
)

type value = strictyaml.Value

// unread is a rate that could not be read, about which there are no further problems.
const unread = -1

// Parse reads a file of tenants. Their defaults are like's values. The error is of type
// strictyaml.Problems, unless it is nil.
func Parse(f strictyaml.File, like Tenant) ([]Tenant, error) {
	f.Least = "tenants:"
	var list []Tenant
	err := strictyaml.Read(f, func(top value) {
		there := top.Fields(map[string]func(value){
			"tenants": func(v value) { list = tenants(v, like) },
		})
		if _, ok := there["tenants"]; !ok && top.IsMapping() {
			top.Problem("tenants: is missing; write at least one tenant with a rate")
		}
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func tenants(v value, like Tenant) []Tenant {
	var list []Tenant
	taken := map[string]bool{}
	v.Each(func(v value) {
		t := tenant(v, like)
		if t.Name != "" && taken[t.Name] {
			v.Problem("there is a tenant %s already; give each its own name", strictyaml.Show(t.Name))
		}
		taken[t.Name] = true
		list = append(list, t)
	})
	switch {
	case v.IsList() && len(list) == 0:
		v.Problem("name no tenant; write at least one with a rate")
	case len(list) > MaxTenants:
		v.Problem("are %d; %d can be told apart", len(list), MaxTenants)
	}
	return list
}

func tenant(v value, like Tenant) Tenant {
	t := like
	t.Name = ""
	t.Rate = 0
	there := v.Fields(map[string]func(value){
		"name":       func(v value) { v.Name(&t.Name) },
		"key":        func(v value) { t.Key, _ = v.Scalar() },
		"model":      func(v value) { t.Model, _ = v.Scalar() },
		"rate":       func(v value) { t.Rate = unread; v.Number(&t.Rate, 0, MaxRate) },
		"arrivals":   func(v value) { strictyaml.OneOf(v, &t.Arrivals, ArrivalWords) },
		"path":       func(v value) { strictyaml.OneOf(v, &t.Path, PathWords) },
		"retry":      func(v value) { strictyaml.OneOf(v, &t.Retry, RetryWords) },
		"prompt":     func(v value) { length(v, &t.Prompt) },
		"output":     func(v value) { length(v, &t.Output) },
		"max_tokens": func(v value) { v.Whole(&t.MaxTokens, 1, MaxTokens) },
		"stream":     func(v value) { v.Number(&t.Stream, 0, 1) },
		"disconnect": func(v value) { v.Number(&t.Disconnect, 0, 1) },
		"burst":      func(v value) { burst(v, &t.Burst) },
		"storm":      func(v value) { storm(v, &t.Storm) },
	})
	if !v.IsMapping() {
		return t
	}
	if _, ok := there["name"]; !ok {
		v.Problem("has no name; write name:")
	}
	t.contradictions(v, there)
	return t
}

// contradictions reports keys that make no sense together.
func (t *Tenant) contradictions(v value, there map[string]value) {
	_, bursts := there["burst"]
	rate, rated := there["rate"]
	switch {
	case !rated && !bursts:
		v.Problem("has neither rate nor burst; write rate: 10, calls a second")
	case rated && t.Rate == 0 && !bursts:
		rate.Problem("0 sends no calls; write the calls a second, or a burst")
	}
	if t.Path == Embeddings {
		for _, key := range slices.Sorted(maps.Keys(there)) {
			switch key {
			case "stream", "disconnect", "storm", "output", "max_tokens":
				there[key].Problem("has no meaning for embeddings; remove it")
			}
		}
		return
	}
	if t.Stream > 0 {
		return
	}
	for _, key := range []string{"disconnect", "storm"} {
		if at, ok := there[key]; ok {
			at.Problem("has no meaning without streams; remove it, or write stream: 1")
		}
	}
}

// length is one number of tokens, or a distribution of them.
func length(v value, into *distribution.Distribution) {
	if v.IsScalar() {
		n := 0.0
		v.Number(&n, 1, MaxTokens)
		*into = distribution.Constant(n)
		return
	}
	there := v.Fields(into.Readers(distribution.Tokens))
	if into.Max > MaxTokens {
		into.Max = MaxTokens
	}
	into.Contradictions(v, there)
}

func burst(v value, into *Burst) {
	there := v.Fields(map[string]func(value){
		"every": func(v value) { v.Duration(&into.Every, 10*time.Millisecond, Longest) },
		"size":  func(v value) { v.Whole(&into.Size, 1, MaxBurst) },
	})
	missing(v, there, "every", "10s")
	missing(v, there, "size", "100")
}

func storm(v value, into *Storm) {
	into.Share = 1
	there := v.Fields(map[string]func(value){
		"every": func(v value) { v.Duration(&into.Every, 10*time.Millisecond, Longest) },
		"share": func(v value) { v.Number(&into.Share, 0, 1) },
	})
	missing(v, there, "every", "10s")
}

func missing(v value, there map[string]value, key, example string) {
	if _, ok := there[key]; !ok && v.IsMapping() {
		v.Problem("has no %s; write it, such as %s: %s", key, key, example)
	}
}
