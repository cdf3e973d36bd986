package mock

import (
	"fmt"
	"strings"
	"testing"
)

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := New(Config{
		Models: []string{""}, FirstToken: -1, TokensPerSecond: -1, Slots: -1, OutputTokens: -1, MostOutput: -1, TPM: -1, RPM: -1,
		Accounting: "x", ErrorRate: 2, HangupRate: -1, SlowRate: 0.5, Usage: "y",
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{
		"Models[0]", "FirstToken", "TokensPerSecond", "Slots", "OutputTokens", "MostOutput", "TPM", "RPM",
		"Accounting", "ErrorRate", "HangupRate", "SlowRate", "Usage",
	} {
		if !strings.Contains(err.Error(), "mock: "+name) {
			t.Errorf("%s is not among the problems:\n%v", name, err)
		}
	}
}

func TestLogf(t *testing.T) {
	lines := make(chan string, 10)
	r := onSocket(t, Config{Logf: func(format string, args ...any) { lines <- fmt.Sprintf(format, args...) }})
	r.chat(`"max_tokens":2`)
	if got, want := <-lines, `chat completed: model="m" prompt=8 output=2 stream=false after `; !strings.HasPrefix(got, want) {
		t.Errorf("logged %q, want %q…", got, want)
	}
}
