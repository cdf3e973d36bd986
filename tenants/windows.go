package tenants

import (
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Shape is how use counts against a limit over time.
type Shape string

// The shapes of limits over time.
const (
	RollingWindow Shape = "rolling_window"
	FixedWindow   Shape = "fixed_window"
	TokenBucket   Shape = "token_bucket"
	GCRA          Shape = "gcra"
)

// Window is a limit over any time and in any shape. A list holds each set of Unit, Per and Shape once.
type Window struct {
	Unit  Unit // Tokens or Requests
	Limit int64
	Per   time.Duration
	Shape Shape
	// Burst is how much a TokenBucket or GCRA lets go at once; 0 is all of Limit, or with GCRA a tenth of it.
	Burst int64 `json:",omitempty"`
}

// The bounds of windows.
const (
	maxWindows = 4
	minPer     = time.Second
	maxPer     = 31 * 24 * time.Hour
)

var shapes = []string{string(RollingWindow), string(FixedWindow), string(TokenBucket), string(GCRA)}

func (w Window) bucket() bool { return w.Shape == TokenBucket || w.Shape == GCRA }

func (w Window) same(o Window) bool { return w.Unit == o.Unit && w.Per == o.Per && w.Shape == o.Shape }

// Name is "tokens per 5h fixed_window". It tells the limits of a list apart.
func (w Window) Name() string {
	name := string(w.Unit) + " per " + strictyaml.SpellDuration(w.Per)
	if w.Shape != RollingWindow {
		name += " " + string(w.Shape)
	}
	return name
}

// String is "2000000 tokens per 5h fixed_window".
func (w Window) String() string {
	text := strconv.FormatInt(w.Limit, 10) + " " + w.Name()
	if w.Burst > 0 {
		text += ", burst " + strconv.FormatInt(w.Burst, 10)
	}
	return text
}

var windowShape = shape[Window]{
	Fields: []field[Window]{
		windowAmount(Tokens, "Tokens in the time."),
		windowAmount(Requests, "Requests in the time."),
		{
			Name: "per", About: "The time, from 1s to 744h.", Kind: strictyaml.DurationKind,
			Read: func(v value, w *Window) { v.Duration(&w.Per, minPer, maxPer) },
		},
		{
			Name: "shape", About: "How use counts. rolling_window: for the time. fixed_window: to the end of the present window by the clock (UTC). " +
				"token_bucket: it drains at a steady rate, and unused rate is saved up. gcra: the same at a smooth pace.",
			Kind:  strictyaml.WordKind(shapes...),
			Read:  func(v value, w *Window) { w.Shape = readShape(v) },
			Start: func(*Window) any { return shapes[0] },
		},
		{
			Name: "burst", About: "How much a token_bucket or gcra lets go at once. Left out, it is the whole amount, or with gcra a tenth of it.",
			Kind: strictyaml.WholeKind(1, maxAmount),
			Read: func(v value, w *Window) {
				w.Burst = readLimit(v, "0 would let no call go; leave it out for the default")
			},
		},
	},
	Also: schema{
		"required": []any{"per"},
		"oneOf":    []any{schema{"required": []any{string(Tokens)}}, schema{"required": []any{string(Requests)}}},
		"dependentSchemas": schema{"burst": schema{
			"required": []any{"shape"}, "properties": schema{"shape": schema{"not": schema{"enum": []any{string(RollingWindow), string(FixedWindow)}}}},
		}},
	},
}

func windowAmount(unit Unit, about string) field[Window] {
	return field[Window]{
		Name: string(unit), About: about, Kind: strictyaml.WholeKind(1, maxAmount),
		Read: func(v value, w *Window) {
			w.Unit = unit
			w.Limit = readLimit(v, "0 would block every call; leave the limit out, or remove the keys to block")
		},
	}
}

func windowsField[T any](about string, at func(*T) *[]Window) field[T] {
	return field[T]{
		Name: "limits", About: about,
		Kind: func() schema {
			list := strictyaml.ListOf(func() schema { return windowShape.Schema(nil) }, 0, true)()
			list["maxItems"] = maxWindows
			return list
		},
		Read: func(v value, into *T) { *at(into) = readWindows(v) },
	}
}

// readShape reads a shape; a bad one reads as the default.
func readShape(v value) Shape {
	text, ok := v.Scalar()
	if !ok {
		return RollingWindow
	}
	if !slices.Contains(shapes, text) {
		v.Problem("%s is not a shape of limits; %s", v.Say(text), strictyaml.AdviseWord(text, shapes))
		return RollingWindow
	}
	return Shape(text)
}

// readWindows reads a list of limits. A refused entry keeps its place with a Limit of 0; the files are refused with it.
func readWindows(v value) []Window {
	items, _ := v.Items()
	items = atMost(v, items, maxWindows)
	var list []Window
	for _, it := range items {
		list = append(list, readWindow(it))
	}
	repeatedWindows(v.Report, v.Path, list)
	return list
}

func readWindow(v value) Window {
	list, ok := v.Pairs()
	w := Window{Shape: RollingWindow}
	if !ok || !windowShape.ReadPairs(list, &w) {
		return Window{}
	}
	amounts := 0
	for _, p := range list {
		if p.Key == string(Tokens) || p.Key == string(Requests) {
			amounts++
		}
	}
	switch {
	case amounts != 1:
		v.Problem("has %d amounts; write one of tokens and requests", amounts)
	case !strictyaml.Has(list, "per"):
		v.Problem("has no time; write per, such as per: 30s or per: 5h")
	case w.Per == 0: // refused
	default:
		complaint := w.complain()
		if complaint == "" {
			return w
		}
		v.Problem("%s", complaint)
	}
	return Window{}
}

// complain is the mistake in how a limit's values go together.
func (w Window) complain() string {
	switch {
	case w.Per%time.Millisecond != 0:
		return "per is no whole number of milliseconds; write it in ms"
	case w.Burst > 0 && !w.bucket():
		return "burst is for shape: token_bucket or gcra; a " + string(w.Shape) + " may be used up at once, so remove it"
	case w.Burst > 0 && w.savesTooLong():
		return "burst takes longer than " + strictyaml.SpellDuration(maxPer) + " to save up; write a smaller one"
	}
	return ""
}

// savesTooLong reports whether it takes longer than maxPer until Burst is saved up: Burst/Limit·Per, exactly.
func (w Window) savesTooLong() bool {
	hi, lo := bits.Mul64(uint64(w.Burst), uint64(w.Per))
	mostHi, mostLo := bits.Mul64(uint64(w.Limit), uint64(maxPer))
	return hi > mostHi || hi == mostHi && lo > mostLo
}

// repeatedWindows reports entries that limit the same as an earlier one.
func repeatedWindows(r *report, path string, list []Window) {
	for i, w := range list {
		first := slices.IndexFunc(list[:i], w.same)
		if first >= 0 && w.Limit != 0 {
			r.At(strictyaml.Item(path, i), "%s is also limited at %s; keep one", w.Name(), r.Place(strictyaml.Item(path, first)).Or("an earlier entry"))
		}
	}
}

// windows checks limits that were made in code.
func (v *verifier) windows(path string, list []Window) {
	if len(list) > maxWindows {
		v.r.At(path, "has %d entries, more than the %d that are supported; remove some", len(list), maxWindows)
	}
	for i, w := range list {
		item := strictyaml.Item(path, i)
		v.amounts(item, 1, maxAmount, amounts{"limit": w.Limit})
		v.amounts(item, 0, maxAmount, amounts{"burst": w.Burst})
		switch {
		case w.Unit != Tokens && w.Unit != Requests:
			v.r.At(item, "%s is not a unit of limits; use tokens or requests", strictyaml.Show(string(w.Unit)))
		case !slices.Contains(shapes, string(w.Shape)):
			v.r.At(item, "%s is not a shape of limits; %s", strictyaml.Show(string(w.Shape)), strictyaml.AdviseWord(string(w.Shape), shapes))
		case w.Per < minPer || w.Per > maxPer:
			v.r.At(item, "per is out of range; use %s to %s", strictyaml.SpellDuration(minPer), strictyaml.SpellDuration(maxPer))
		case w.complain() != "":
			v.r.At(item, "%s", w.complain())
		}
	}
	repeatedWindows(v.r, path, list)
}

// windows adds those of t's limits that a file has under a key, and those of its parents of which t has none that is as strict.
func (s *Snapshot) windows(l *lister, t *Tenant, key string, of func(*Tenant) []Window) {
	for i, w := range of(t) {
		l.add(strictyaml.Spell(strictyaml.Item(key, i)), w.String(), s.itemOrigin(t, key, i))
	}
	listed := slices.Clone(of(t))
	for a := range s.parents(t) {
		for i, w := range of(a) {
			asStrict := func(o Window) bool { return o.same(w) && o.Limit <= w.Limit && o.Burst == w.Burst }
			if slices.ContainsFunc(listed, asStrict) {
				continue
			}
			listed = append(listed, w)
			shown := strictyaml.Spell(strictyaml.Item(key, i))
			l.list = append(l.list, Limit{Key: shown, Value: w.String(), From: s.itemOrigin(a, key, i), Of: a.Name})
		}
	}
}
