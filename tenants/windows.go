package tenants

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Window is a limit over any time and in any shape. A list holds each set of axis, time and shape once.
type Window = terms.Limit

// The bounds of windows.
const (
	minPer = time.Second
	maxPer = 31 * 24 * time.Hour
)

var shapes = words[terms.Shape]{"a shape of limits", []terms.Shape{terms.RollingWindow, terms.FixedWindow, terms.TokenBucket, terms.GCRA}}

// spellWindow is "2000000 tokens per 5h fixed_window".
func spellWindow(w Window) string {
	text := strconv.FormatInt(w.Amount, 10) + " " + w.Name()
	if w.Burst > 0 {
		text += ", burst " + strconv.FormatInt(w.Burst, 10)
	}
	return text
}

var windowShape = shape[Window]{
	Fields: slices.Concat(windowAmounts(), []field[Window]{
		{
			Name: "per", About: "The time.", Kind: strictyaml.DurationKindTo(minPer, maxPer),
			Read: func(v value, w *Window) { v.Duration(&w.Per, minPer, maxPer) },
		},
		{
			Name: "shape", About: "How use counts. rolling_window: for the time. fixed_window: to the end of the present window by the clock (UTC). " +
				"token_bucket: it drains at a steady rate, and unused rate is saved up. gcra: the same at a smooth pace.",
			Kind:  shapes.kind(),
			Read:  func(v value, w *Window) { w.Kind = shapes.read(v, terms.RollingWindow) },
			Start: func(*Window) any { return terms.RollingWindow.String() },
		},
		{
			Name: "burst", About: "How much a token_bucket or gcra lets go at once. Left out, it is the whole amount, or with gcra a tenth of it.",
			Kind: strictyaml.WholeKind(1, maxAmount),
			Read: func(v value, w *Window) {
				w.Burst = readLimit(v, "0 would let no call go; leave it out for the default")
			},
		},
	}),
	Also: schema{
		"oneOf": oneAmount(),
		"dependentSchemas": schema{"burst": schema{
			"required":   []any{"shape"},
			"properties": schema{"shape": schema{"not": schema{"enum": []any{terms.RollingWindow.String(), terms.FixedWindow.String()}}}},
		}},
	},
}

// timed are the axes of limits over time.
var timed = slices.DeleteFunc(slices.Clone(terms.Axes), func(k terms.Axis) bool { return k == terms.Concurrency })

// windowAmounts are the keys of a limit's amount, of each axis one.
func windowAmounts() (list []field[Window]) {
	for _, k := range terms.Axes {
		list = append(list, field[Window]{
			Name: k.String(), About: "The limit on " + k.Unit() + ".", Kind: strictyaml.WholeKind(1, maxAmount),
			Read: func(v value, w *Window) {
				w.Of = k
				w.Amount = readLimit(v, "0 would block every call; leave the limit out, or remove the keys to block")
			},
		})
	}
	return list
}

// oneAmount is the schema's part that there is one of them, with a time unless it is of calls at once.
func oneAmount() (list []any) {
	for _, k := range timed {
		list = append(list, schema{"required": []any{k.String(), "per"}})
	}
	untimed := schema{"per": false, "shape": false, "burst": false}
	return append(list, schema{"required": []any{terms.Concurrency.String()}, "properties": untimed})
}

// windowsField is the long form of limits. Of tenants it has those over other times and in other shapes too.
func windowsField[T any](about string, at func(*T) *terms.Limits) field[T] {
	return field[T]{
		Name: "limits", About: about, Kind: windowList(terms.MaxLimits),
		Read: func(v value, into *T) {
			l := at(into)
			list := readWindows(v, terms.MaxLimits)
			l.Windows = foldWindows(v, list, l, func(w Window) bool { return w.Of == terms.Concurrency })
		},
	}
}

// shortWindowsField is the long form of limits of which there are no others than short keys say. advice is for those who wrote one.
func shortWindowsField[T any, P interface {
	*T
	terms.Limited
}](advice string) field[T] {
	return field[T]{
		Name: "limits", About: "The long form of the same limits, such as {input_tokens: 80000, per: 1m}.", Kind: windowList(len(terms.Axes)),
		Read: func(v value, into *T) {
			short := func(w Window) bool {
				return w.Of == terms.Concurrency || w.Same(Window{Of: w.Of, Rule: terms.Rule{Per: time.Minute}})
			}
			list := readWindows(v, len(terms.Axes))
			for i, w := range list {
				if w.Amount != 0 && !short(w) {
					v.Report.At(strictyaml.Item(v.Path, i), "is no limit of a rolling minute, which is all that there can be here; %s", advice)
				}
			}
			foldWindows(v, list, P(into), short)
		},
	}
}

func windowList(most int) kind {
	return func() schema {
		list := strictyaml.ListOf(func() schema { return windowShape.Schema(nil) }, 0, true)()
		list["maxItems"] = most
		return list
	}
}

// readWindows reads a list of limits. A refused entry keeps its place with an Amount of 0; the files are refused with it.
func readWindows(v value, most int) []Window {
	items, _ := v.Items()
	items = atMost(v, items, most)
	var list []Window
	for _, it := range items {
		list = append(list, readWindow(it))
	}
	repeatedWindows(v.Report, v.Path, list)
	return list
}

// foldWindows puts entries that a short key says as well where that puts them, and answers the others, whose places move up.
func foldWindows(v value, list []Window, into terms.Limited, short func(Window) bool) (kept []Window) {
	siblings := strings.TrimSuffix(v.Path, "limits")
	for i, w := range list {
		at := v.Report.Places[strictyaml.Item(v.Path, i)]
		key := siblings + w.Of.Key()
		switch {
		case w.Amount == 0 || !short(w):
			v.Report.Places[strictyaml.Item(v.Path, len(kept))] = at
			kept = append(kept, w)
		case slices.ContainsFunc(list[:i], w.Same): // reported
		case v.Report.Places[key] != (place{}):
			v.Report.At(strictyaml.Item(v.Path, i), "%s is also limited at %s; keep one", w.Of, v.Report.Place(key))
		default:
			*into.Amount(w.Of) = w.Amount
			v.Report.Places[key] = at
		}
	}
	return kept
}

func readWindow(v value) Window {
	list, ok := v.Pairs()
	var w Window
	if !ok || !windowShape.ReadPairs(list, &w) {
		return Window{}
	}
	amounts := 0
	for _, k := range terms.Axes {
		if strictyaml.Has(list, k.String()) {
			amounts++
		}
	}
	switch {
	case amounts != 1:
		v.Problem("has %d amounts; write one of %s", amounts, oneOf(terms.Axes))
	case w.Of == terms.Concurrency && len(list) > 1:
		v.Problem("is of calls at once, which have no time or shape; write {concurrency: %d}", w.Amount)
	case w.Of == terms.Concurrency:
		return w
	case !strictyaml.Has(list, "per"):
		v.Problem("has no time; write per, such as per: 30s or per: 5h")
	case w.Per == 0: // refused
	default:
		complaint := complainWindow(w)
		if complaint == "" {
			return w
		}
		v.Problem("%s", complaint)
	}
	return Window{}
}

// oneOf lists axes by their names: "requests, tokens and input_tokens".
func oneOf(axes []terms.Axis) string {
	names := make([]string, len(axes))
	for i, k := range axes {
		names[i] = k.String()
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// complainWindow is the mistake in how a limit's values go together.
func complainWindow(w Window) string {
	switch {
	case w.Per%time.Millisecond != 0:
		return "per is no whole number of milliseconds; write it in ms"
	case w.Burst > 0 && !w.Kind.Bucket():
		return "burst is for shape: token_bucket or gcra; a " + w.Kind.String() + " may be used up at once, so remove it"
	case w.Burst > 0 && w.Window() > maxPer:
		return "burst takes longer than " + strictyaml.SpellDuration(maxPer) + " to save up; write a smaller one"
	}
	return ""
}

// repeatedWindows reports entries that limit the same as an earlier one.
func repeatedWindows(r *report, path string, list []Window) {
	for i, w := range list {
		first := slices.IndexFunc(list[:i], w.Same)
		if first >= 0 && w.Amount != 0 {
			name := w.Name()
			if w.Of == terms.Concurrency {
				name = w.Of.String()
			}
			r.At(strictyaml.Item(path, i), "%s is also limited at %s; keep one", name, r.Place(strictyaml.Item(path, first)).Or("an earlier entry"))
		}
	}
}

// windows checks limits that were made in code.
func (v *verifier) windows(path string, list []Window) {
	if len(list) > terms.MaxLimits {
		v.r.At(path, "has %d entries, more than the %d that are supported; remove some", len(list), terms.MaxLimits)
	}
	for i, w := range list {
		item := strictyaml.Item(path, i)
		v.amounts(item, 1, maxAmount, amounts{"limit": w.Amount})
		v.amounts(item, 0, maxAmount, amounts{"burst": w.Burst})
		switch {
		case !slices.Contains(timed, w.Of):
			v.r.At(item, "%d is not an axis of limits over time", int(w.Of))
		case !slices.Contains(shapes.list, w.Kind):
			shapes.verify(v.r, item, w.Kind)
		case w.Per < minPer || w.Per > maxPer:
			v.r.At(item, "per is out of range; use %s to %s", strictyaml.SpellDuration(minPer), strictyaml.SpellDuration(maxPer))
		case complainWindow(w) != "":
			v.r.At(item, "%s", complainWindow(w))
		}
	}
	repeatedWindows(v.r, path, list)
}

// windows adds those of t's limits that a file has under a key, and those of its parents of which t has none that is as strict.
func (s *Snapshot) windows(l *lister, t *Tenant, key string, of func(*Tenant) []Window) {
	for i, w := range of(t) {
		l.add(strictyaml.Spell(strictyaml.Item(key, i)), spellWindow(w), s.itemOrigin(t, key, i))
	}
	listed := slices.Clone(of(t))
	for a := range s.parents(t) {
		for i, w := range of(a) {
			asStrict := func(o Window) bool { return o.Same(w) && o.Amount <= w.Amount && o.Burst == w.Burst }
			if slices.ContainsFunc(listed, asStrict) {
				continue
			}
			listed = append(listed, w)
			shown := strictyaml.Spell(strictyaml.Item(key, i))
			l.list = append(l.list, Limit{Key: shown, Value: spellWindow(w), From: s.itemOrigin(a, key, i), Of: a.Name})
		}
	}
}
