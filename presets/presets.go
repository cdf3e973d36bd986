// Package presets holds starting points as YAML: configs with a pool each, and packs of tiers.
//
//	governor/quiet.yaml, balanced.yaml, aggressive.yaml   a whole llmgov.yaml, from the smallest key to a contract
//	tiers/saas.yaml, internal-platform.yaml, …            the tiers of a policy file
//
// They are texts to copy and change: no config names a preset, so the limits in force are in the operator's files, and
// a new release changes nobody's limits. The first line of each is a comment with its purpose.
//
// # Stability
//
// Experimental: any release may change it.
package presets

import (
	"embed"
	"path"
	"strings"
)

//go:embed governor/*.yaml tiers/*.yaml
var files embed.FS

// Preset is one starting point.
type Preset struct {
	Name string
	// Kind is "governor", a config, or "tiers", a policy file with tiers.
	Kind string
	// About is its purpose.
	About string
	// YAML is its text.
	YAML string
}

// order is the order of lists: from small to large, and the most usual tiers first.
var order = []string{
	"governor/quiet", "governor/balanced", "governor/aggressive",
	"tiers/saas", "tiers/internal-platform", "tiers/batch-and-chat",
}

// All lists the presets.
func All() []Preset {
	list := make([]Preset, len(order))
	for i, name := range order {
		data, err := files.ReadFile(name + ".yaml")
		if err != nil {
			panic("llmgov: BUG: " + err.Error())
		}
		text := string(data)
		about, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		list[i] = Preset{Name: path.Base(name), Kind: path.Dir(name), About: about, YAML: text}
	}
	return list
}

// Find is the preset of a name.
func Find(name string) (Preset, bool) {
	for _, p := range All() {
		if p.Name == name {
			return p, true
		}
	}
	return Preset{}, false
}
