package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/llmgov/llmgov/internal/lib/http1/plain"
)

// serve is a child: it serves its role until in ends, and answers each line on
// in with its counters, or with what it holds.
func serve(o options, in io.Reader, out io.Writer) error {
	if o.memProfile != "" {
		runtime.MemProfileRate = 4 << 10
	}
	if o.mutexProfile != "" {
		runtime.SetMutexProfileFraction(10)
	}
	handlers, err := newHandlers(o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	hi := hello{URL: "http://" + l.Addr().String()}
	server := newServer(o, handlers.data)
	served := make(chan error, 1)
	if o.tls == "" {
		go func() { served <- server.Serve(l) }() // ends with Close
	} else {
		hi.URL = "https://" + l.Addr().String()
		go func() { served <- server.ServeTLS(l, o.tls, o.tls) }() // ends with Close
	}
	if o.role != roles[direct] {
		url, end, err := serveSecurely(handlers.data)
		if err != nil {
			return err
		}
		hi.Secure = url
		defer func() { _ = end() }()
	}
	if handlers.admission != nil {
		at, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		hi.Admission = at.Addr().String()
		defer handlers.admission.Close()
		go func() { _ = handlers.admission.Serve(at) }() // ends with Close
	}
	stopProfile, err := startProfile(o.cpuProfile)
	if err != nil {
		return err
	}
	err = control(in, out, hi)
	stopProfile()
	err = errors.Join(err, writeProfile("allocs", o.memProfile), writeProfile("mutex", o.mutexProfile), server.Close())
	if s := <-served; !errors.Is(s, http.ErrServerClosed) {
		err = errors.Join(err, s)
	}
	return err
}

// server is an http.Server, or like one.
type server interface {
	Serve(net.Listener) error
	ServeTLS(l net.Listener, certificate, key string) error
	Close() error
}

// newServer has the settings of llmgov's serve command for all roles. Around that of llmgov there is what serve puts around it.
func newServer(o options, h http.Handler) server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(o.http2)
	settings := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		Protocols:         &protocols,
	}
	if o.role == roles[governed] {
		return plain.New(settings)
	}
	return settings
}

func control(in io.Reader, out io.Writer, hi hello) error {
	enc := json.NewEncoder(out)
	if err := enc.Encode(hi); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := enc.Encode(read(lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// read is the answer to a line.
func read(line string) any {
	if line == askHolding {
		return readHolding()
	}
	return readCounters()
}

func readCounters() counters {
	c := counters{CPU: cpuTime()}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c.Allocs = m.Mallocs
	c.Bytes = m.TotalAlloc
	return c
}

func startProfile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}, nil
}

func writeProfile(name, file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	runtime.GC() // that of allocations is as of the last collection
	return errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close())
}
