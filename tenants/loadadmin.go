package tenants

import (
	"fmt"

	"github.com/llmgov/llmgov/internal/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
)

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
		return Admin{}, fmt.Errorf("cannot read config %s: %w; name the file with -c", l.shown, disk.Reason(err))
	}
	doc := strictyaml.Parse(l.r, strictyaml.File{Name: l.shown, Data: data, Expand: strictyaml.Expander(opt.Env)})
	if doc == nil {
		return Admin{}, l.r.Err()
	}
	file := configFile{settings: map[string]any{}}
	configShape.Read(strictyaml.Root(l.r, doc), &file)
	for _, path := range []string{strictyaml.Child("admin", "listen"), strictyaml.Child("admin", "token")} {
		_, written := l.r.Places[path]
		if _, understood := file.settings[path]; l.r.Refused["admin"] || written && !understood {
			return Admin{}, l.r.Err()
		}
	}
	r := strictyaml.NewReport()
	cfg := layer(r, DefaultConfig(), file.settings, opt)
	return cfg.Admin, r.Err()
}
