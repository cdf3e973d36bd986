package store_test

import (
	"strings"
	"testing"

	_ "github.com/llmgov/llmgov/federation/redis"
	"github.com/llmgov/llmgov/federation/store"
)

// A program has the stores that it links, and is told what to import for another. Nothing is shown of an address.
func TestCheck_KnowsWhatIsLinked(t *testing.T) {
	for address, want := range map[string]string{
		"redis://u:secret@h":           "",
		"rediss+sentinel://h?master=m": "",
		"redis+sentinel://u:secret@h":  "?master=NAME",
		"postgres://u:secret@h/d":      `import _ "github.com/llmgov/llmgov/federation/postgres"`,
		"postgresql://u:secret@h/d":    `import _ "github.com/llmgov/llmgov/federation/postgres"`,
		"mysql://u:secret@h/d":         "not one of a store",
		"redis":                        "not one of a store",
		"secret":                       "not one of a store",
		"":                             "not one of a store",
	} {
		err := store.Check(address)
		if (err != nil) != (want != "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
		opened, failed := store.Open(address, func(string, string) {})
		if (failed != nil) != (err != nil) || (opened != nil) != (failed == nil) {
			t.Errorf("%q opens as %v with %v, but its check says %v", address, opened, failed, err)
		}
		if opened != nil {
			opened.Close()
		}
	}
	if got := store.Server("redis://h:1"); got != "h:1" {
		t.Errorf("the server is %q", got)
	}
}
