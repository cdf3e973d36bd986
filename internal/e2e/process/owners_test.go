package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// A response belongs to who made it also after a kill -9, if there is a folder, and to
// nobody else.
func TestOwnersOutliveAKill(t *testing.T) {
	dir := t.TempDir()
	config := restartConfig(t, dir, startMock(t)+"/v1", "rpm: 1000", true)
	respond := func(p *process, tenant, previous string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.data+"/v1/responses", strings.NewReader(`{"model":"m","input":"hi"`+previous+`}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer key-of-"+tenant)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	p := serveIn(t, dir, config)
	status, text := respond(p, "a", "")
	id := gjson.Get(text, "id").Str
	if status != http.StatusOK || id == "" {
		t.Fatal(status, text)
	}
	if err := poll(func() error {
		if !strings.Contains(read(filepath.Join(dir, "state", "objects.db")), id) {
			return fmt.Errorf("%s is not written", id)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // until the write has been committed
	p.kill()
	<-p.done
	p = serveIn(t, dir, config)
	previous := `,"previous_response_id":"` + id + `"`
	if status, text := respond(p, "a", previous); status != http.StatusOK {
		t.Errorf("its owner gets %d %s", status, text)
	}
	if status, text := respond(p, "b", previous); status != http.StatusNotFound {
		t.Errorf("another tenant gets %d %s", status, text)
	}
}
