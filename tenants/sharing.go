package tenants

import (
	"encoding/json"
	"slices"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// The bounds of the withheld part: at least a thousandth, since less is none, and at most nine tenths.
const (
	minLocalPPM = 1000
	maxLocalPPM = 900_000
)

var storeLossField = field[Pool]{
	Name: "on_store_loss", About: "What is handed out when the store that gateways share cannot be asked: nothing, {local: 0.1} for a part that is withheld at all times, or open for no limit between gateways.",
	Kind: storeLossKind, Read: func(v value, p *Pool) { readStoreLoss(v, p) },
	Start: func(*Pool) any { return terms.LossClosed.String() },
}

var localShape = shape[Pool]{
	Fields: []field[Pool]{{
		Name: "local", About: "The part of tpm, rpm, itpm and otpm that those who are cut off have together.", Kind: strictyaml.FractionKind(6, minLocalPPM, maxLocalPPM),
		Read: func(v value, p *Pool) {
			p.OnLoss = terms.LossLocal
			p.LocalPPM = v.Decimal(6, minLocalPPM, maxLocalPPM, minLocalPPM)
		},
		Start: func(*Pool) any { return json.Number("0.1") },
	}},
	Also: schema{"required": []any{"local"}},
}

// storeLossKind is a word, or the mapping.
func storeLossKind() schema {
	s := lossWords.kind()()
	s["anyOf"] = append(s["anyOf"].([]any), localShape.Schema(nil))
	return s
}

// lossWords are the rules that are a word.
var lossWords = words[terms.OnLoss]{"a rule for the loss of a store", []terms.OnLoss{terms.LossClosed, terms.LossOpen}}

func readStoreLoss(v value, p *Pool) {
	if v.IsMapping() {
		list, _ := v.Pairs()
		if localShape.ReadPairs(list, p) && !strictyaml.Has(list, "local") {
			v.Problem("says nothing; write closed, open or {local: 0.1}")
		}
		return
	}
	text, ok := v.Scalar()
	if i := slices.Index(lossWords.names(), text); i >= 0 {
		p.OnLoss = lossWords.list[i]
	} else if ok {
		what := "write closed, open or {local: 0.1}"
		if near, ok := strictyaml.Nearest(text, lossWords.names()); ok {
			what = "did you mean " + strictyaml.Show(near) + "?"
		}
		v.Problem("%s is not %s; %s", v.Say(text), lossWords.one, what)
	}
}

// complainStoreLoss is the mistake in a rule that was made in code.
func (p *Pool) complainStoreLoss() string {
	switch {
	case p.OnLoss > terms.LossLocal:
		return "is not a rule for the loss of a store; use LossClosed, LossOpen or LossLocal"
	case p.OnLoss != terms.LossLocal && p.LocalPPM != 0:
		return "withholds a part that nobody gets; use LossLocal"
	case p.OnLoss == terms.LossLocal && (p.LocalPPM < minLocalPPM || p.LocalPPM > maxLocalPPM):
		return "withholds a part that is not in 0.001…0.9"
	}
	return ""
}

var limitsModes = words[terms.LimitsMode]{"a way to keep limits together", []terms.LimitsMode{terms.LimitsLeased, terms.LimitsCachedDeny, terms.LimitsStrict}}

var tenantLimitsField = field[Pool]{
	Name: "tenant_limits", About: "How gateways that share a store keep tenants' own limits together: leased has each hold a part of them, and ask for more before it is used up; strict asks the store for each call; cached_deny as well, but not again before there may be room.",
	Kind: limitsModes.kind(), Read: func(v value, p *Pool) { p.TenantLimits = limitsModes.read(v, terms.LimitsLeased) },
	Start: func(*Pool) any { return terms.LimitsLeased.String() },
}
