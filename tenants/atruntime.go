package tenants

import (
	"encoding/json"
	"time"
)

// AtRuntime is what operators have set while gateways run, over the files.
type AtRuntime struct {
	Overrides []Override      `json:"overrides"`
	Tenants   []RuntimeTenant `json:"tenants,omitempty"`
}

// RuntimeTenant is a tenant with its teams, which stands in place of one that files have of its name.
type RuntimeTenant struct {
	Tenant string `json:"tenant"`
	// Policy is what a policy file has below its name, as JSON.
	Policy json.RawMessage `json:"policy"`
	// Why is the reason, By who gave it, and Made when.
	Why  string    `json:"why,omitempty"`
	By   string    `json:"by"`
	Made time.Time `json:"made"`
}

// File is where problems of it are, and the limits that it has.
func (t *RuntimeTenant) File() string { return "/api/v1/tenants/" + t.Tenant }

// runtimeFiles are the tenants of Options.Runtime, each as a policy file of its own, and their digests for those who look for changes.
func (l *loader) runtimeFiles(p *policy, cfg *Config) (files []*policyFile) {
	if l.opt.Runtime == nil {
		return nil
	}
	for _, t := range l.opt.Runtime(cfg) {
		data := encode(map[string]map[string]json.RawMessage{"tenants": {t.Tenant: t.Policy}})
		path := "\x00" + t.File() // no file is called so
		l.sums[path] = sumOf(data, nil)
		if p != nil {
			f := p.file(path, t.File(), data)
			f.runtime = true
			files = append(files, f)
		}
	}
	return files
}
