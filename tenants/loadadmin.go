package tenants

import "fmt"

// LoadAdmin reads of a config file only where its gateway's admin side is. Whatever else is wrong in the files is left
// to [Load]: a gateway goes on with its last good policy while they are being mended, and wants to be watched just then.
func LoadAdmin(name string, opt Options) (Admin, error) {
	l, err := newLoader(name, opt)
	if err != nil {
		return Admin{}, err
	}
	l.begin()
	data, err := l.readFile(l.config)
	if err != nil {
		return Admin{}, fmt.Errorf("cannot read config %s: %w; name the file with -c", l.shown, reason(err))
	}
	doc := parse(l.r, l.shown, data, l.env)
	if doc == nil {
		return Admin{}, l.r.err()
	}
	file := configFile{settings: map[string]any{}}
	read(rootOf(l.r, doc), configShape, &file)
	for _, path := range []string{child("admin", "listen"), child("admin", "token")} {
		_, written := l.r.places[path]
		if _, understood := file.settings[path]; l.r.refused["admin"] || written && !understood {
			return Admin{}, l.r.err()
		}
	}
	r := newReport()
	cfg := layer(r, DefaultConfig(), file.settings, opt)
	return cfg.Admin, r.err()
}
