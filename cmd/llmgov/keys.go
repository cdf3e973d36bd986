package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

type keysCmd struct {
	New  keysNewCmd  `cmd:"" help:"Make a key. The key is shown once; only its hash goes into a policy file."`
	Hash keysHashCmd `cmd:"" help:"Print the hash of a key: of the argument, or of the line on standard input."`
}

// Help is printed below the flags.
func (keysCmd) Help() string { return `Example: llmgov keys new acme` }

type keysNewCmd struct {
	Name string `arg:"" optional:"" help:"Part of the key, to distinguish keys." default:"key"`
}

// Help is printed below the flags.
func (keysNewCmd) Help() string { return `Example: llmgov keys new acme` }

func (k keysNewCmd) Run(e *env) error {
	if err := keyfile.CheckLabel(k.Name); err != nil {
		return &usageError{err.Error()}
	}
	key := keyfile.NewKey(k.Name)
	fmt.Fprintf(e.stdout, "key   %s\nhash  %s\n", key, tenants.HashKey(key))
	return nil
}

type keysHashCmd struct {
	Key  string `arg:"" optional:"" help:"The key. Default: read from standard input, which keeps it out of the shell's history."`
	Weak bool   `help:"Hash the key even if it could be guessed from its hash. For keys that you cannot change."`
}

// Help is printed below the flags.
func (keysHashCmd) Help() string { return `Example: llmgov keys hash <acme.key` }

func (k keysHashCmd) Run(e *env) error {
	if k.Key == "" {
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		k.Key = strings.TrimRight(line, "\r\n")
		if k.Key == "" {
			return &usageError{fmt.Sprintf("there is no key to hash (%v)", err)}
		}
	}
	if err := keyfile.CheckStrength(k.Key); err != nil && !k.Weak {
		return fmt.Errorf("%w, or add --weak if you cannot change it", err)
	}
	fmt.Fprintln(e.stdout, tenants.HashKey(k.Key))
	return nil
}
