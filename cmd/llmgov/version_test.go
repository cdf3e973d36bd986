package main

import (
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	built := func(main string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: main}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "722be9bd05b680db6654282fb2431024798d5fe8"}
	at := debug.BuildSetting{Key: "vcs.time", Value: "2026-11-21T22:29:34Z"}
	clean := debug.BuildSetting{Key: "vcs.modified", Value: "false"}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for name, c := range map[string]struct {
		linked          string
		info            *debug.BuildInfo
		version, commit string
	}{
		"a release":           {"v1.2.3", built("(devel)"), "v1.2.3", ""},
		"a release of a tree": {"v1.2.3", built("v1.2.3+dirty", revision, at, changed), "v1.2.3", " (commit 722be9bd05b6 of 2026-11-21T22:29:34Z, with changes)"},
		"go build":            {"", built("v0.0.0-20261121222934-722be9bd05b6", revision, at, clean), "v0.0.0-20261121222934-722be9bd05b6", " (commit 722be9bd05b6 of 2026-11-21T22:29:34Z)"},
		"go install @v1.2.3":  {"", built("v1.2.3"), "v1.2.3", ""},
		"a shallow clone":     {"", built("(devel)", revision, clean), "(devel)", " (commit 722be9bd05b6)"},
		"no repository":       {"", built(""), "(devel)", ""},
		"no modules":          {"", nil, "(devel)", ""},
	} {
		if got := versionOf(c.linked, c.info); got != c.version {
			t.Errorf("%s: version %q, want %q", name, got, c.version)
		}
		if got := commitOf(c.info); got != c.commit {
			t.Errorf("%s: commit %q, want %q", name, got, c.commit)
		}
	}
}
