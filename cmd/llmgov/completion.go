package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return `Example: llmgov completion bash >> ~/.bashrc

zsh: llmgov completion zsh >> ~/.zshrc
fish: llmgov completion fish > ~/.config/fish/completions/llmgov.fish`
}

// Scripts have the path of the program, which answers the shell when COMP_LINE is set.
var completionScripts = map[string]string{
	"bash": "complete -o default -C %[1]q llmgov\n",
	"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -o default -C %[1]q llmgov\n",
	"fish": "function __complete_llmgov\n    set -lx COMP_LINE (commandline -cp)\n    test -z (commandline -ct)\n    and set COMP_LINE \"$COMP_LINE \"\n    %[1]q\nend\ncomplete -c llmgov -a \"(__complete_llmgov)\"\n",
}

func (c *completionCmd) Run(e *env) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, completionScripts[c.Shell], program)
	return nil
}

// completionAsked returns the command line up to the cursor, if a shell asks by COMP_LINE how it may go on.
func completionAsked(vars []string) (line string, ok bool) {
	point := -1
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "COMP_LINE":
			line = value
			ok = true
		case "COMP_POINT":
			if n, err := strconv.Atoi(value); err == nil {
				point = n
			}
		}
	}
	if point >= 0 && point < len(line) {
		line = line[:point]
	}
	return line, ok
}

// completions are the commands, flags and values that may stand where the line ends. For the value of a flag there
// are none, unless the flag lists them, so that the shell offers files.
func completions(node *kong.Node, line string) []string {
	words := strings.Fields(line)
	begun := ""
	if len(words) > 0 && !strings.HasSuffix(line, " ") {
		begun = words[len(words)-1]
		words = words[:len(words)-1]
	}
	var before string
	for _, word := range words[min(1, len(words)):] {
		before = word
		for _, child := range node.Children {
			if child.Name == word {
				node = child
			}
		}
	}
	var out []string
	for _, word := range possible(node, before, begun) {
		if strings.HasPrefix(word, begun) {
			out = append(out, word)
		}
	}
	return out
}

// possible returns the words that may follow before, whether or not they begin as begun does.
func possible(node *kong.Node, before, begun string) []string {
	var out []string
	for _, flags := range node.AllFlags(false) {
		for _, flag := range flags {
			takesValue := !flag.IsBool() && !flag.IsCounter()
			if takesValue && (before == "--"+flag.Name || flag.Short != 0 && before == "-"+string(flag.Short)) {
				return flag.EnumSlice()
			}
			if strings.HasPrefix(begun, "-") {
				out = append(out, "--"+flag.Name)
			}
		}
	}
	if strings.HasPrefix(begun, "-") {
		return out
	}
	for _, child := range node.Children {
		if !child.Hidden {
			out = append(out, child.Name)
		}
	}
	for _, arg := range node.Positional {
		out = append(out, arg.EnumSlice()...)
	}
	return out
}
