package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The help of each command shows a real example of it.
func TestHelp_ShowsExamples(t *testing.T) {
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	err = kong.Visit(parser.Model.Node, func(n kong.Visitable, next kong.Next) error {
		if node, ok := n.(*kong.Node); ok && node.Type == kong.CommandNode {
			commands++
			path := strings.Fields(node.FullPath())[1:]
			var out, failures bytes.Buffer
			if code := run(context.Background(), append(path, "--help"), nil, &out, &failures); code != exitOK {
				t.Errorf("%v --help: exit code %d, %s", path, code, &failures)
			}
			if want := "\nExample: llmgov " + strings.Join(path, " "); !strings.Contains(out.String(), want) {
				t.Errorf("no line %q in\n%s", want[1:], &out)
			}
		}
		return next(nil)
	})
	if err != nil || commands < 20 {
		t.Errorf("%d commands, %v", commands, err)
	}
}
