package scenario

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

//go:embed named/*.yaml
var scenarioFiles embed.FS

// Names are the scenarios that Find knows without a file.
func Names() []string {
	entries, err := scenarioFiles.ReadDir("named")
	if err != nil {
		panic("llmgov: BUG: " + err.Error())
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	slices.Sort(names)
	return names
}

// ErrUnknown is that no scenario has the name that was asked for.
var ErrUnknown = errors.New("simulate: there is no scenario")

// Find returns a named scenario, or reads a file. A name that looks like a path, or
// ends in .yaml, is always a file; any other name that is unknown is [ErrUnknown].
func Find(name string) (Scenario, error) {
	ext := filepath.Ext(name)
	if ext == ".yaml" || ext == ".yml" || strings.ContainsRune(name, filepath.Separator) {
		data, err := os.ReadFile(name)
		if err != nil {
			return Scenario{}, fmt.Errorf("simulate: %w; the named scenarios are %s", err, strings.Join(Names(), ", "))
		}
		s, err := Parse(name, data)
		s.File = name
		return s, err
	}
	data, err := scenarioFiles.ReadFile("named/" + strings.ToLower(name) + ".yaml")
	if err != nil {
		return Scenario{}, fmt.Errorf("%w %q; %s, or write the path of a file, such as ./mine.yaml", ErrUnknown, name, strictyaml.Advise(name, Names()))
	}
	return Parse(strings.ToLower(name)+".yaml", data)
}
