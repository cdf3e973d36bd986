// A program with a governor of its own, and the store in memory.
package main

import (
	"context"

	"github.com/llmgov/llmgov/governor/embedded"
)

func main() {
	governed, err := embedded.Open(context.Background(), "llmgov.yaml", embedded.Options{})
	if err != nil {
		panic(err)
	}
	_ = governed.Close()
}
