package doors

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// envoyBodies is Envoy that sends us the bodies of requests and the parts of answers.
var envoyBodies = Door{
	Name:     "Envoy, ext_proc with bodies",
	Needs:    needsEnvoy,
	Open:     func(t *testing.T, s *Site) Post { s.Serve(); return openEnvoy(t, s, envoyConfig{ExtProc: true}) },
	InFlight: BreaksOff,
	Away:     Fails,
	Rate:     100,
}

// envoyMetadata is Envoy 1.40, which describes requests and their usage by metadata.
var envoyMetadata = Door{
	Name:  "Envoy, ext_proc with metadata",
	Needs: needsEnvoy,
	Open: func(t *testing.T, s *Site) Post {
		s.Serve()
		return openEnvoy(t, s, envoyConfig{ExtProc: true, Metadata: true})
	},
	Cannot:   map[string]string{"caller": usageAtEnd},
	InFlight: BreaksOff,
	Away:     Fails,
	Rate:     100,
}

// envoyRateLimit is Envoy that asks the rate limit service.
var envoyRateLimit = Door{
	Name:  "Envoy, rate limit service",
	Needs: needsEnvoy,
	Open: func(t *testing.T, s *Site) Post {
		s.Serve()
		return openEnvoy(t, s, envoyConfig{RateLimit: true})
	},
	Cannot: map[string]string{
		"ends":    "Calls that come to an end are charged exactly. But Envoy says once that a call has ended, and waits for no answer: the lease of one in some hundreds that break off is left, and ends after ten minutes.",
		"caller":  usageAtEnd,
		"refusal": "It says all that, but its status is 429 for every reason: Envoy has one status for refusals.",
	},
	InFlight: GoesOn,
	Away:     Fails,
	Rate:     100,
}

const usageAtEnd = "The lease is freed at once. But Envoy tells the usage at the end of an answer alone: one that breaks off is charged by the time that it ran."

// envoyConfig chooses the parts of testdata/envoy.yaml.
type envoyConfig struct {
	ExtProc, Metadata bool
	RateLimit         bool

	Port, ModelPort, AdmissionPort int
	Token                          string
}

// openEnvoy runs Envoy in front of the site's model server.
func openEnvoy(t *testing.T, s *Site, c envoyConfig) Post {
	t.Helper()
	c.Port = testkit.Port(t)
	c.ModelPort = portOf(t, strings.TrimPrefix(s.ModelURL, "http://"))
	c.AdmissionPort = portOf(t, s.Admission)
	c.Token = AdmissionToken
	var text bytes.Buffer
	testkit.OK(t, template.Must(template.ParseFiles("testdata/envoy.yaml")).Execute(&text, c))
	log := &bytes.Buffer{}
	envoy := exec.Command(os.Getenv(envoyProgram), "-c", s.write("envoy.yaml", text.String()), "--concurrency", "1", "--disable-hot-restart", "-l", "error")
	envoy.Stderr = log
	testkit.OK(t, envoy.Start())
	t.Cleanup(func() {
		_ = envoy.Process.Kill()
		_ = envoy.Wait()
	})
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port))
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(until) {
			t.Fatalf("Envoy does not listen: %s", log)
		}
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(client.CloseIdleConnections)
	return postTo(client, "http://"+addr)
}

// envoyProgram is the environment variable with the path of Envoy, which envoy/run.sh installs.
const envoyProgram = "ENVOY"

func needsEnvoy(t *testing.T) {
	t.Helper()
	path := os.Getenv(envoyProgram)
	if path == "" {
		testkit.Elsewhere(t, "Envoy", "test-envoy")
	}
	testkit.Must(os.Stat(path))(t)
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Must(strconv.Atoi(port))(t)
}
