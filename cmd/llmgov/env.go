package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/llmgov/llmgov/tenants"
)

// env is the environment of a command.
type env struct {
	ctx            context.Context
	vars           []string
	stdout, stderr io.Writer
}

// Exit codes.
const (
	exitOK    = 0
	exitBad   = 1 // the command or its check failed, or the target was not found
	exitUsage = 2 // the command line is wrong, whether or not the target exists
)

// usageError is a wrong command line.
type usageError struct{ what string }

func (e *usageError) Error() string { return "llmgov: " + e.what }

// errTold ends a command with exitBad whose output has already named the problem.
var errTold = errors.New("llmgov: BUG: told already")

// calledWrongly reports whether the command line is at fault, if only partly.
func calledWrongly(err error) bool {
	if problems, ok := errors.AsType[tenants.Problems](err); ok {
		return slices.ContainsFunc(problems, tenants.OfFlag)
	}
	_, ok := errors.AsType[*usageError](err)
	return ok
}

func writeJSON(e *env, v any) error {
	enc := json.NewEncoder(e.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
