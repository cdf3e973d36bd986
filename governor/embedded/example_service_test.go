package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/embedded"
)

var oneAMinute = embedded.Policy{
	Pools:   []embedded.Pool{{Name: "gpt-4o", TPM: 300_000}},
	Tenants: []embedded.Tenant{{Name: "acme", RPM: 1}},
}

// A service that is told to stop takes no more requests, lets those in flight end, and then ends the governor, before Kubernetes kills it.
func Example_gracefulShutdown() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	governed, err := embedded.New(ctx, oneAMinute, embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &http.Server{Addr: "127.0.0.1:0", Handler: http.NotFoundHandler()} // its handlers call governed.Do
	go func() { _ = server.ListenAndServe() }()

	self, _ := os.FindProcess(os.Getpid())
	_ = self.Signal(syscall.SIGTERM) // stands for Kubernetes
	<-ctx.Done()
	late, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	fmt.Println(errors.Join(server.Shutdown(late), governed.Shutdown(late)))
	// Output: <nil>
}

// Apply puts another policy in force as a whole. Calls in flight keep the one that they began with, and nothing that was used is forgotten.
func ExampleGovernor_Apply() {
	governed, err := embedded.New(context.Background(), oneAMinute, embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer governed.Close()
	call := func() {
		err := governed.Do(context.Background(), client.Request{Tenant: "acme", Model: "gpt-4o", InputTokens: 900, MaxOutput: 300},
			func(context.Context, *client.Lease) (client.Usage, error) {
				return client.Usage{Input: 880, Output: 120}, nil
			})
		fmt.Println("refused:", errors.Is(err, client.ErrRefused))
	}
	call()
	call()
	larger := oneAMinute
	larger.Tenants = []embedded.Tenant{{Name: "acme", RPM: 2}}
	if err := governed.Apply(larger); err != nil {
		fmt.Println(err) // the old one stays in force
	}
	call()
	// Output:
	// refused: false
	// refused: true
	// refused: false
}

// The metrics stand beside those of a program's own registry, at a path of their own.
func ExampleGovernor_Metrics() {
	governed, err := embedded.New(context.Background(), oneAMinute, embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer governed.Close()
	own := prometheus.NewRegistry()
	jobs := prometheus.NewCounter(prometheus.CounterOpts{Name: "jobs_total", Help: "Jobs done."})
	own.MustRegister(jobs)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(own, promhttp.HandlerOpts{}))
	mux.Handle("/metrics/llmgov", governed.Metrics())

	for _, path := range []string{"/metrics", "/metrics/llmgov"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, strings.Contains(w.Body.String(), "jobs_total"), strings.Contains(w.Body.String(), "llmgov_"))
	}
	// Output:
	// /metrics true false
	// /metrics/llmgov false true
}
