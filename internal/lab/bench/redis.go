package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	_ "github.com/llmgov/llmgov/federation/redis" // the store whose server is started
)

// startRedis starts a Redis server that keeps nothing on disk. It returns its address as a store, and the function that
// ends it.
func startRedis() (store string, end func(), err error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	host, port, err := net.SplitHostPort(free.Addr().String())
	if err = errors.Join(err, free.Close()); err != nil {
		return "", nil, err
	}
	server := exec.Command("redis-server", "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", os.TempDir())
	if err := server.Start(); err != nil {
		return "", nil, fmt.Errorf("-redis: %w", err)
	}
	end = func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	address := net.JoinHostPort(host, port)
	for range 100 {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return "redis://" + address, end, conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	end()
	return "", nil, errors.New("-redis: redis-server does not listen")
}
