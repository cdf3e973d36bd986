package tenants

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// AtRuntime is what operators have set while gateways run, over the files.
type AtRuntime struct {
	Overrides []Override      `json:"overrides"`
	Tenants   []RuntimeTenant `json:"tenants,omitempty"`
}

// RuntimeTenant is a tenant with its teams, which stands in place of one that files have of its name.
type RuntimeTenant struct {
	Tenant string `json:"tenant"`
	// Policy is what a policy file would have below its name.
	Policy json.RawMessage `json:"policy"`
	// Why is the reason, By who gave it, and Made when.
	Why  string    `json:"why,omitempty"`
	By   string    `json:"by"`
	Made time.Time `json:"made"`
	// SetAside is why it is not in force at this gateway, whose files it does not fit. It is left out if it is in force.
	SetAside string `json:"set_aside,omitempty"`
	// Firm says that files which it does not fit are refused, in place of it.
	Firm bool `json:"-"`
}

// File is where problems of it are, and the limits that it has.
func (t *RuntimeTenant) File() string { return "/api/v1/tenants/" + url.PathEscape(t.Tenant) }

// Trial is the error of a load with a tenant that is Firm. Whether the files are at fault, a load without that tells.
type Trial struct{ Err error }

// Error implements error.
func (t Trial) Error() string { return t.Err.Error() }

// Unwrap is Err.
func (t Trial) Unwrap() error { return t.Err }

// runtimeFiles are the tenants of Options.Runtime, each as a policy file of its own, and their digests for those who look for changes.
func (l *loader) runtimeFiles(p *policy, cfg *Config) (files []*policyFile) {
	if l.opt.Runtime == nil {
		return nil
	}
	list := l.set
	if list == nil {
		list = l.opt.Runtime(cfg)
	}
	for i := range list {
		t := &list[i]
		data := encode(map[string]map[string]json.RawMessage{"tenants": {t.Tenant: t.Policy}})
		path := "\x00" + t.File() // no file is called so
		l.sums[path] = sumOf(data, nil)
		if p != nil && l.aside[t.Tenant] == "" {
			f := p.file(path, t.File(), data)
			f.runtime = true
			files = append(files, f)
		}
	}
	if p != nil {
		l.set = list
	}
	return files
}

// load loads all files. Of the tenants that were set at run time it sets those aside that do not fit, unless they are Firm.
func load(l *loader) (*Snapshot, error) {
	l.aside = map[string]string{}
	l.set = nil
	defer func() { l.set = nil }()
	snap, err := l.fitting()
	if err != nil && slices.ContainsFunc(l.set, func(t RuntimeTenant) bool { return t.Firm }) {
		err = Trial{err}
	}
	return snap, err
}

// fitting loads all files with those tenants that fit.
func (l *loader) fitting() (*Snapshot, error) {
	snap, err := l.load()
	rest := slices.DeleteFunc(slices.Clone(l.set), func(t RuntimeTenant) bool { return t.Firm })
	for err != nil {
		before := len(rest)
		rest = slices.DeleteFunc(rest, func(t RuntimeTenant) bool { return l.blame(&t, err) })
		if len(rest) == before {
			break
		}
		snap, err = l.load()
	}
	if err == nil || len(rest) == 0 {
		return snap, err
	}
	l.without(rest, err)
	if _, alone := l.load(); alone != nil {
		return nil, alone
	}
	l.fit(rest, err)
	return l.load()
}

// blame sets a tenant aside that has problems of its own, and reports whether it has.
func (l *loader) blame(t *RuntimeTenant, err error) bool {
	problems, _ := errors.AsType[Problems](err)
	own := slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return p.File != t.File() })
	if len(own) > 0 {
		l.without([]RuntimeTenant{*t}, own)
	}
	return len(own) > 0
}

// without sets tenants aside.
func (l *loader) without(list []RuntimeTenant, why error) {
	first, more, _ := strings.Cut(why.Error(), "\n")
	if more != "" {
		first += fmt.Sprintf(" (and %d more)", strings.Count(more, "\n")+1)
	}
	for _, t := range list {
		l.aside[t.Tenant] = first
	}
}

// fit takes back those of a list that fit together with all that are not set aside. All of it is, because together it does not.
func (l *loader) fit(list []RuntimeTenant, why error) {
	if len(list) == 1 {
		return
	}
	half := len(list) / 2
	for _, part := range [][]RuntimeTenant{list[:half], list[half:]} {
		for _, t := range part {
			delete(l.aside, t.Tenant)
		}
		if _, err := l.load(); err != nil {
			l.without(part, err)
			l.fit(part, err)
		}
	}
}

// setAside notes whom the loader has set aside. Those that the files have of their names are blocked: they may have keys and limits that were
// meant to end.
func (s *Snapshot) setAside(l *loader) {
	for _, t := range l.set {
		if t.SetAside = l.aside[t.Tenant]; t.SetAside == "" {
			continue
		}
		s.aside = append(s.aside, t)
		if at, known := s.byName[t.Tenant]; known {
			s.block(at, &Override{Tenant: t.Tenant, By: t.By, Why: "the tenant set at run time in its place is set aside"})
		}
	}
	if len(s.aside) > 0 {
		s.full = sumOf(append(s.full[:], encode(s.aside)...), nil)
		s.runtime.full = s.full
	}
}

// Aside are the tenants that were set at run time and do not fit the files.
func (s *Snapshot) Aside() []RuntimeTenant { return s.aside }

// Unfit is what was set at run time and does nothing, because the files have changed such that it does not fit, as sentences.
func (s *Snapshot) Unfit() (list []string) {
	for _, t := range s.aside {
		blocked := ""
		if _, known := s.byName[t.Tenant]; known {
			blocked = ", and what the files have of its name is blocked"
		}
		list = append(list, "tenant "+strictyaml.Show(t.Tenant)+", which "+t.By+" has set at run time, is set aside"+blocked+", because it does not fit the files: "+t.SetAside)
	}
	return append(list, s.laid.unfit...)
}
