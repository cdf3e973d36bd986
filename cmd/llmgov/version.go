package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// version is set by the linker on a release: -ldflags '-X main.version=v1.2.3'.
var version = ""

type versionCmd struct{}

func (versionCmd) Help() string { return `Example: llmgov version` }

func (versionCmd) Run(e *env) error {
	printVersion(e.stdout)
	return nil
}

// versionFlag is --version, which prints it and ends the command.
type versionFlag bool

// BeforeReset runs before anything else of the command line is judged.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	printVersion(app.Stdout)
	app.Exit(exitOK)
	return nil
}

func printVersion(w io.Writer) {
	info, _ := debug.ReadBuildInfo()
	fmt.Fprintf(w, "llmgov %s%s %s %s/%s\n", versionOf(version, info), commitOf(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionText is the version alone.
func versionText() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(version, info)
}

// versionOf is the version set by the linker, else the module's version of go install or go
// build. info is nil in a binary that was built without modules.
func versionOf(linked string, info *debug.BuildInfo) string {
	switch {
	case linked != "":
		return linked
	case info != nil && info.Main.Version != "":
		return info.Main.Version
	}
	return "(devel)"
}

// commitOf is the commit of the source, or empty if the build had -buildvcs=false or no
// repository.
func commitOf(info *debug.BuildInfo) string {
	var revision, at, changed string
	if info != nil {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = fmt.Sprintf("%.12s", s.Value)
			case s.Key == "vcs.time":
				at = " of " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = ", with changes"
			}
		}
	}
	if revision == "" {
		return ""
	}
	return " (commit " + revision + at + changed + ")"
}
