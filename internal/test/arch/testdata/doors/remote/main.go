// A program that asks an llmgov elsewhere.
package main

import "github.com/llmgov/llmgov/governor/remote"

func main() {
	governed, err := remote.Dial("localhost:9091", remote.Options{})
	if err != nil {
		panic(err)
	}
	_ = governed.Close()
}
