package tenants

import (
	"encoding/json"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// The bounds of the withheld part: at least a thousandth, since less is none, and at most nine tenths.
const (
	minLocalPPM = 1000
	maxLocalPPM = 900_000
)

var storeLossField = field[Pool]{
	Name: "on_store_loss", About: "What is handed out when the store that gateways share cannot be asked: nothing, {local: 0.1} for a part that is withheld at all times, or open for no limit between gateways.",
	Kind: storeLossKind, Read: func(v value, p *Pool) { p.StoreLoss = readStoreLoss(v) },
	Start: func(*Pool) any { return string(StoreLossClosed) },
}

var localShape = shape[StoreLoss]{
	Fields: []field[StoreLoss]{{
		Name: "local", About: "The part of tpm, rpm, itpm and otpm that those who are cut off have together.", Kind: strictyaml.FractionKind(6, minLocalPPM, maxLocalPPM),
		Read: func(v value, l *StoreLoss) {
			l.Rule = StoreLossLocal
			l.LocalPPM = v.Decimal(6, minLocalPPM, maxLocalPPM, minLocalPPM)
		},
		Start: func(*StoreLoss) any { return json.Number("0.1") },
	}},
	Also: schema{"required": []any{"local"}},
}

// storeLossKind is a word, or the mapping.
func storeLossKind() schema {
	s := strictyaml.WordKind(string(StoreLossClosed), string(StoreLossOpen))()
	s["anyOf"] = append(s["anyOf"].([]any), localShape.Schema(nil))
	return s
}

func readStoreLoss(v value) StoreLoss {
	closed := StoreLoss{}
	if v.IsMapping() {
		var l StoreLoss
		list, _ := v.Pairs()
		if localShape.ReadPairs(list, &l) && !strictyaml.Has(list, "local") {
			v.Problem("says nothing; write closed, open or {local: 0.1}")
		}
		return l
	}
	text, ok := v.Scalar()
	switch {
	case !ok || text == string(StoreLossClosed):
		return closed
	case text == string(StoreLossOpen):
		return StoreLoss{Rule: StoreLossOpen}
	}
	what := "write closed, open or {local: 0.1}"
	if near, ok := strictyaml.Nearest(text, []string{string(StoreLossClosed), string(StoreLossOpen)}); ok {
		what = "did you mean " + strictyaml.Show(near) + "?"
	}
	v.Problem("%s is not a rule for the loss of a store; %s", v.Say(text), what)
	return closed
}

// complain is the mistake in a rule that was made in code.
func (l StoreLoss) complain() string {
	switch l.Rule {
	case "", StoreLossClosed, StoreLossOpen:
		if l.LocalPPM == 0 {
			return ""
		}
		return "withholds a part that nobody gets; use StoreLossLocal"
	case StoreLossLocal:
		if l.LocalPPM >= minLocalPPM && l.LocalPPM <= maxLocalPPM {
			return ""
		}
		return "withholds a part that is not in 0.001…0.9"
	}
	return "is not a rule for the loss of a store; use StoreLossClosed, StoreLossOpen or StoreLossLocal"
}

var limitsModes = words[LimitsMode]{"a way to keep limits together", []LimitsMode{LimitsLeased, LimitsCachedDeny, LimitsStrict}}

var tenantLimitsField = field[Pool]{
	Name: "tenant_limits", About: "How gateways that share a store keep tenants' own limits together: leased has each hold a part of them, and ask for more before it is used up; strict asks the store for each call; cached_deny as well, but not again before there may be room.",
	Kind: limitsModes.kind(), Read: func(v value, p *Pool) { p.TenantLimits = limitsModes.read(v, LimitsLeased) },
	Start: func(*Pool) any { return string(LimitsLeased) },
}
