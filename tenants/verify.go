package tenants

import (
	"fmt"
	"strings"
	"time"
)

// verify holds values made in code to the rules that the readers hold files to.
func verify(r *report, cfg *Config, list []Tenant) {
	for _, s := range settings {
		verifySetting(r, s, cfg)
	}
	names := verifier{r: r, seen: map[string]bool{}}
	for _, u := range cfg.Upstreams {
		path := names.name("upstreams", u.Name)
		if complaint := checkBaseURL(u.BaseURL); u.BaseURL != "" && complaint != "" {
			r.at(child(path, "base_url"), "value (not shown) %s", complaint)
		}
		if complaint := checkSecret(u.APIKey); complaint != "" {
			r.at(child(path, "api_key"), "value (not shown) %s", complaint)
		}
		if u.Kind != "" && u.Kind != "openai" {
			r.at(child(path, "kind"), "%s is not supported yet; write openai", u.Kind)
		}
	}
	for i := range cfg.Pools {
		names.pool(&cfg.Pools[i])
	}
	for i := range list {
		names.tenant(&list[i])
	}
}

// verifySetting writes a setting's value out and parses it again.
func verifySetting(r *report, s setting, cfg *Config) {
	text := fmt.Sprint(s.get(cfg))
	if s.key == "policies" {
		return // Build reads no files
	}
	if _, complaint := s.parse(text); complaint != "" {
		r.add(r.place(s.path()), "%s", s.complain(show(text), complaint))
	}
}

type verifier struct {
	r    *report
	seen map[string]bool
}

// name checks one name of a kind and that it occurs once, and answers its path.
func (v *verifier) name(kind, name string) string {
	path := child(kind, name)
	if complaint := checkName(name); complaint != "" {
		v.r.at(kind, "name %s %s", show(name), complaint)
	}
	if v.seen[path] {
		v.r.at(kind, "%s is defined twice; remove one", show(name))
	}
	v.seen[path] = true
	return path
}

func (v *verifier) pool(p *Pool) {
	path := v.name("pools", p.Name)
	v.amounts(path, 0, maxAmount, amounts{"tpm": p.TPM, "rpm": p.RPM, "concurrency": p.Concurrency})
	v.amounts(path, 1, maxAmount, amounts{"default_max_output": p.DefaultMaxOutput})
	v.amounts(path, 0, maxHeadroomPPM, amounts{"headroom (millionths)": p.HeadroomPPM})
	v.amounts(path, 1, maxQueue, amounts{"max_queue": int64(p.MaxQueue)})
	w := p.TokenWeights
	v.amounts(child(path, "token_weights"), 0, maxTokenWeight, amounts{
		"input": w.Input, "cached_input": w.CachedInput, "output": w.Output, "reasoning": w.Reasoning, "audio": w.Audio,
	})
	v.duration(child(path, "burst"), p.Burst, maxBurst)
	if complaint := checkAccounting(string(p.Accounting)); complaint != "" {
		v.r.at(child(path, "accounting"), "%s %s", show(string(p.Accounting)), complaint)
	}
	v.patterns(child(path, "models"), p.Models)
}

func (v *verifier) tenant(t *Tenant) {
	path := v.name("tenants", t.Name)
	if strings.Contains(t.Name, "/") {
		v.r.at("tenants", "name %s holds a slash; write a tenant's name without", show(t.Name))
	}
	v.amounts(path, 1, maxWeight, amounts{"weight (thousandths)": t.Weight})
	v.amounts(path, 0, maxAmount, amounts{
		"rpm": t.RPM, "tpm": t.TPM, "itpm": t.ITPM, "otpm": t.OTPM, "concurrency": t.Concurrency,
		"max_output_tokens": t.MaxOutputTokens,
	})
	v.duration(child(path, "max_wait"), t.MaxWait, maxMaxWait)
	v.patterns(child(path, "models"), t.Models)
	for i, k := range t.Keys {
		if k == (KeyHash{}) {
			v.r.at(item(child(path, "keys"), i), "is the zero hash; make it with HashKey")
		}
	}
}

type amounts map[string]int64

func (v *verifier) amounts(path string, least, most int64, list amounts) {
	for key, n := range list {
		if n < least || n > most {
			v.r.at(child(path, key), "%d is out of range; use %d to %d", n, least, most)
		}
	}
}

func (v *verifier) duration(path string, d, most time.Duration) {
	if d < 0 || d > most {
		v.r.at(path, "%s is out of range; use 0s to %s", d, spellDuration(most))
	}
}

// patterns checks models and writes them in their plain form.
func (v *verifier) patterns(path string, list []string) {
	for i, m := range list {
		if complaint := checkPattern(m); complaint != "" {
			v.r.at(item(path, i), "%s %s", show(m), complaint)
		}
		list[i] = plain(m)
	}
}
