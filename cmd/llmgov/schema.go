package main

import (
	"fmt"

	"github.com/llmgov/llmgov/tenants"
)

type schemaCmd struct {
	Kind string `arg:"" optional:"" name:"KIND" enum:"config,policy," default:"" help:"config or policy. Left out: one schema that takes both."`
}

func (schemaCmd) Help() string {
	return `Example: llmgov schema policy >policy.schema.json

Editors with a YAML language server then complete and check a file that begins with
# yaml-language-server: $schema=policy.schema.json

Exit codes: 0 ok, 2 the command line is wrong.`
}

func (s schemaCmd) Run(e *env) error {
	text, err := tenants.Schema(s.Kind)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "%s\n", text)
	return err
}
