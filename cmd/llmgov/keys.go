package main

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"github.com/llmgov/llmgov/tenants"
)

type keysCmd struct {
	New  keysNewCmd  `cmd:"" help:"Make a key. The key is shown once; only its hash goes into a policy file."`
	Hash keysHashCmd `cmd:"" help:"Print the hash of a key: of the argument, or of the line on standard input."`
}

type keysNewCmd struct {
	Name string `arg:"" optional:"" help:"Part of the key, so that people can tell keys apart." default:"key"`
}

func (k keysNewCmd) Run(e *env) error {
	if strings.ContainsFunc(k.Name, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }) || k.Name == "" {
		return &usageError{fmt.Sprintf("a key's name has lower-case letters, digits and dashes, not %q", k.Name)}
	}
	key := newKey(k.Name)
	fmt.Fprintf(e.stdout, "key   %s\nhash  %s\n", key, tenants.HashKey(key))
	return nil
}

// newKey makes a key with 192 random bits. Its prefix makes a leaked one easy
// to find.
func newKey(name string) string {
	var secret [24]byte
	_, _ = rand.Read(secret[:]) // never fails
	return "llmg_" + name + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
}

type keysHashCmd struct {
	Key string `arg:"" optional:"" help:"The key; read from standard input when left out, which keeps it out of the shell's history."`
}

func (k keysHashCmd) Run(e *env) error {
	if k.Key == "" {
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if k.Key = strings.TrimRight(line, "\r\n"); k.Key == "" {
			return &usageError{fmt.Sprintf("there is no key to hash (%v)", err)}
		}
	}
	fmt.Fprintln(e.stdout, tenants.HashKey(k.Key))
	return nil
}
