package tenants

import (
	"maps"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// OfFlag reports whether it is a flag that is wrong, and no file.
func OfFlag(p Problem) bool { return strings.HasPrefix(p.File, flagPlace) }

// flagPlace begins the place of a flag's value.
const flagPlace = "flag "

// Options are the layers above the files.
type Options struct {
	// Env is a list like os.Environ(). It overrides settings and fills ${…}. nil is an empty environment.
	Env []string
	// WithoutSecrets reads a config whose secrets are in variables that are not set, for readers who have no use for them.
	WithoutSecrets bool
	// Flags maps a setting, such as "admin.listen", to the text given for it. They override the environment.
	Flags map[string]string
	// More are policy files beside those that Policies finds, named as the user names them.
	More []string
	// Named is that of [Config].
	Named bool
	// Store checks the address of a shared store, beyond its scheme. Its error shows no secret.
	// Whoever opens stores knows; nil asks nobody.
	Store func(address string) error
	// Runtime are the tenants in place of those of the policy files; nil is none. It is asked at each load, with the config that was read, and at each look for
	// changes, with nil.
	Runtime func(*Config) []RuntimeTenant
}

// spared are the keys of a config whose variables need not be set.
func (o *Options) spared() []string {
	if !o.WithoutSecrets {
		return nil
	}
	return []string{"api_key", "token", "store", "secret", "webhook", "notify", "key", "limits_api"}
}

// Overlay is cfg with the environment and the flags of opt laid over it. The error is [Problems].
func Overlay(cfg Config, opt Options) (Config, error) {
	r := strictyaml.NewReport()
	out := layer(r, cfg, nil, opt)
	if err := r.Err(); err != nil {
		return Config{}, err
	}
	return out, nil
}

// layer merges base ← file ← environment ← flags. file maps paths to typed values. Places in r are moved to the layer
// that wins, so that later checks blame the right one.
func layer(r *report, base Config, file map[string]any, opt Options) Config {
	defaults := map[string]any{}
	for _, s := range settings {
		defaults[s.path()] = s.get(&base)
	}
	k := koanf.New(strictyaml.PathSep)
	must(k.Load(confmap.Provider(defaults, strictyaml.PathSep), nil))
	must(k.Load(confmap.Provider(file, strictyaml.PathSep), nil))
	must(k.Load(environ(r, opt.Env), nil))
	must(k.Load(confmap.Provider(flags(r, opt.Flags), strictyaml.PathSep), nil))

	merged := Config{Upstreams: base.Upstreams, Pools: base.Pools, Prices: base.Prices, Listed: base.Listed, Identity: base.Identity, Notify: base.Notify, Named: base.Named}
	must(k.Unmarshal("", &merged))
	merged.Admin.Roles = base.Admin.Roles
	merged.Admin.Proxy = base.Admin.Proxy
	merged.TLS = pairedTLS(r, "tls", merged.TLS).or(TLS{})
	merged.Admin.TLS = pairedTLS(r, "admin.tls", merged.Admin.TLS).or(merged.TLS)
	merged.Admission.TLS = pairedTLS(r, "admission.tls", merged.Admission.TLS).or(merged.TLS)
	if merged.Store != base.Store && opt.Store != nil && !strings.HasPrefix(merged.Store, inFile) {
		if err := opt.Store(merged.Store); err != nil {
			r.At("store", "%v", err)
		}
	}
	return merged
}

// pairedTLS complains about half of what TLS needs.
func pairedTLS(r *report, key string, t TLS) TLS {
	at := func(name string) string {
		return strictyaml.Child(strings.ReplaceAll(key, ".", strictyaml.PathSep), name)
	}
	switch {
	case t.Cert == NoTLS:
	case t.Cert != "" && t.Key == "" && !r.Refused[at("key")]:
		r.At(at("cert"), "%s has no key beside it; set %s.key to the file of its private key", r.Shown(at("cert"), t.Cert), key)
	case t.Cert == "" && t.Key != "":
		r.At(at("key"), "%s has no certificate beside it; set %s.cert", r.Shown(at("key"), t.Key), key)
	case t.Cert == "" && t.ClientCA != "":
		r.At(at("client_ca"), "%s asks for clients' certificates without TLS; set %s.cert and %s.key", r.Shown(at("client_ca"), t.ClientCA), key, key)
	}
	return t
}

// environ is the layer of the environment.
func environ(r *report, list []string) koanf.Provider {
	byName := map[string]setting{}
	for _, s := range settings {
		byName[s.env()] = s
	}
	return env.Provider(strictyaml.PathSep, env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return list },
		TransformFunc: func(name, text string) (string, any) {
			s, known := byName[name]
			if !known {
				return "", nil
			}
			return s.over(r, place{File: "environment " + name}, text)
		},
	})
}

// flags is the layer of the flags.
func flags(r *report, given map[string]string) map[string]any {
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.key == key })
		if i < 0 {
			r.Add(place{File: flagPlace + setting{key: key}.flag()}, "sets %s, which is not a setting; remove it", strictyaml.Show(key))
			continue
		}
		s := settings[i]
		if path, val := s.over(r, place{File: flagPlace + s.flag()}, given[key]); path != "" {
			out[path] = val
		}
	}
	return out
}

// over is the setting's path and value when text, from above the file, is to replace it, and otherwise "".
func (s setting) over(r *report, from place, text string) (path string, val any) {
	if text == "" {
		return "", nil
	}
	val, complaint := s.parse(text)
	if complaint != "" {
		r.Add(from, "%s", s.complain(strictyaml.Show(text), complaint))
		return "", nil
	}
	r.Replaced(s.path(), from)
	return s.path(), val
}

// must panics, because the merged values were made by the code above, so an error is in that.
func must(err error) {
	if err != nil {
		panic("llmgov: BUG: merging settings: " + err.Error())
	}
}
