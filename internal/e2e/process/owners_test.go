package process

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

// A response belongs to its maker also after a kill -9, if there is a folder, and to
// nobody else.
func TestOwnersOutliveAKill(t *testing.T) {
	t.Parallel()
	dir := newFolder(t, upstream(t), "rpm: 1000", kept)
	p := processtest.Start(t, dir, config)
	respond := func(tenant, previous string) processtest.Answer {
		return processtest.Ask(t, http.MethodPost, p.Data+"/v1/responses", "key-of-"+tenant, `{"model":"m","input":"hi"`+previous+`}`)
	}
	// A response is committed when the next one is written, because that is in a later transaction.
	made := ""
	for range 2 {
		answer := respond("a", "")
		id := gjson.Get(answer.Body, "id").Str
		if answer.Status != http.StatusOK || id == "" {
			t.Fatal(answer)
		}
		processtest.Until(t, func() error {
			text, err := os.ReadFile(filepath.Join(dir, "state", "objects.db"))
			if err == nil && !strings.Contains(string(text), id) {
				err = fmt.Errorf("%s is not written", id)
			}
			return err
		})
		if made == "" {
			made = id
		}
	}
	p.Kill()
	p = processtest.Start(t, dir, config)
	previous := `,"previous_response_id":"` + made + `"`
	if answer := respond("a", previous); answer.Status != http.StatusOK {
		t.Errorf("its owner gets %d %s", answer.Status, answer.Body)
	}
	if answer := respond("b", previous); answer.Status != http.StatusNotFound {
		t.Errorf("another tenant gets %d %s", answer.Status, answer.Body)
	}
}
