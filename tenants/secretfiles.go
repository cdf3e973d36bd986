package tenants

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
)

// inFile begins a secret that is in a file of its own, as containers have them mounted: file:/run/secrets/openai.
const inFile = "file:"

// secrets puts the contents of files in the places of their names. The files are followed like the config.
func (l *loader) secrets(cfg *Config) {
	l.secret(&cfg.Admin.Token, strictyaml.Child("admin", "token"), parseToken)
	for i := range cfg.Admin.Roles {
		l.secret(&cfg.Admin.Roles[i].Token, strictyaml.Child(strictyaml.Item(strictyaml.Child("admin", "roles"), i), "token"), parseToken)
	}
	l.secret(&cfg.Admission.Token, strictyaml.Child("admission", "token"), parseToken)
	l.secret(&cfg.Store, "store", func(text string) (string, string) {
		_, complaint := parseStore(text)
		if complaint == "" && l.opt.Store != nil {
			if err := l.opt.Store(text); err != nil {
				return "", err.Error()
			}
		}
		return text, complaint
	})
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		l.secret(&u.APIKey, strictyaml.Child(strictyaml.Child("upstreams", u.Name), "api_key"), parseSecret)
		l.secret(&u.LimitsAPI.Key, limitsKey(u.Name), parseSecret)
		l.upstreamTLS(u)
	}
	for i := range cfg.Notify {
		l.secret(&cfg.Notify[i].Secret, strictyaml.Child(strictyaml.Item("notify", i), "secret"), parseHookSecret)
	}
}

// secret reads one, if it is in a file. An empty file is none: whoever names one wants a secret.
func (l *loader) secret(at *string, key string, parse func(string) (string, string)) {
	name, is := strings.CutPrefix(*at, inFile)
	if !is || l.opt.WithoutSecrets {
		return
	}
	l.r.Typed[key] = *at // it is no secret, unlike what is in the file
	file := l.beside(name)
	l.secretFiles = append(l.secretFiles, file)
	data, err := l.readFile(file)
	if err != nil {
		l.r.At(key, "%s cannot be read: %v; name a file that this process may read", strictyaml.Show(name), disk.Reason(err))
		return
	}
	*at = strings.TrimRight(string(data), "\r\n")
	complaint := ""
	if *at == "" {
		complaint = "is empty"
	} else {
		_, complaint = parse(*at)
	}
	if complaint != "" {
		l.r.At(key, "what is in %s (not shown) %s", strictyaml.Show(name), complaint)
	}
}

func parseSecret(text string) (string, string) { return text, checkSecret(text) }

// beside is where the loader has a file that the config names, relative to the config file.
func (l *loader) beside(name string) string {
	if name = filepath.ToSlash(name); path.IsAbs(name) {
		return path.Clean(strings.TrimLeft(name, "/"))
	}
	return path.Join(path.Dir(l.config), name)
}
