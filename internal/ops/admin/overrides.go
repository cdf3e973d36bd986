package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// Overrides keeps the limits that are laid over those of the policy.
type Overrides interface {
	// List returns those that have not ended.
	List() []tenants.Override
	// Change puts in force, here and at all gateways, what edit makes of those that have not ended. It may call edit again, if others
	// change them at the same time. The error is that of edit, ErrStore, or why they stay as they are.
	Change(ctx context.Context, edit func([]tenants.Override) ([]tenants.Override, error)) error
}

// ErrStore is the error of a change that the shared store has not taken.
var ErrStore = errors.New("the store of all gateways does not answer")

// mostWhy is the longest reason of an override, in characters.
const mostWhy = 256

// listOverrides answers GET /api/v1/overrides.
func (a *API) listOverrides(w http.ResponseWriter, _ *http.Request) {
	list := []adminapi.Override{}
	for _, o := range a.Overrides.List() {
		list = append(list, adminapi.Override(o))
	}
	respond(w, adminapi.OverrideList{Overrides: list})
}

// showOverride answers GET /api/v1/overrides/{tenant}.
func (a *API) showOverride(w http.ResponseWriter, r *http.Request) error {
	list := a.Overrides.List()
	at := overrideAt(list, r.PathValue("tenant"))
	if at < 0 {
		return &adminapi.Fault{Status: http.StatusNotFound, Code: "override_not_found", Message: "There is no override of " + strconv.Quote(text.Brief(r.PathValue("tenant"))) + ". GET /api/v1/overrides lists all."}
	}
	respondOverride(w, http.StatusOK, list[at])
	return nil
}

func overrideAt(list []tenants.Override, tenant string) int {
	return slices.IndexFunc(list, func(o tenants.Override) bool { return o.Tenant == tenant })
}

func respondOverride(w http.ResponseWriter, status int, o tenants.Override) {
	w.Header().Set("ETag", etag(&o))
	w.Header().Set("Cache-Control", "no-store")
	respondAs(w, status, adminapi.Override(o))
}

// etag tells one state of an override from any other.
func etag(o *tenants.Override) string {
	data, _ := json.Marshal(o) // numbers, texts and times
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// setOverride answers PUT /api/v1/overrides/{tenant}. What is there already stays as it is.
func (a *API) setOverride(w http.ResponseWriter, r *http.Request) error {
	next, err := a.readOverride(w, r, time.Now())
	if err != nil {
		return err
	}
	status := http.StatusOK
	changed := false
	err = a.Overrides.Change(r.Context(), func(list []tenants.Override) ([]tenants.Override, error) {
		at := overrideAt(list, next.Tenant)
		if err := asExpected(r, list, at); err != nil {
			return nil, err
		}
		changed = at < 0 || !sameOverride(list[at], next)
		switch {
		case at < 0:
			status = http.StatusCreated
			return append(list, next), nil
		case changed:
			list[at] = next
		default:
			next = list[at]
		}
		return list, nil
	})
	if err != nil {
		return overrideError(err)
	}
	if changed {
		view := adminapi.Override(next)
		a.audit(r, "override.set", slog.String("tenant", next.Tenant), slog.String("limits", view.Limits()), slog.Any("until", next.Until), slog.String("reason", next.Why))
	}
	respondOverride(w, status, next)
	return nil
}

// clearOverride answers DELETE /api/v1/overrides/{tenant}. To clear none changes nothing.
func (a *API) clearOverride(w http.ResponseWriter, r *http.Request) error {
	tenant := r.PathValue("tenant")
	there := false
	err := a.Overrides.Change(r.Context(), func(list []tenants.Override) ([]tenants.Override, error) {
		at := overrideAt(list, tenant)
		there = at >= 0
		if err := asExpected(r, list, at); err != nil || !there {
			return list, err
		}
		return slices.Delete(list, at, at+1), nil
	})
	if err != nil {
		return overrideError(err)
	}
	if there {
		a.audit(r, "override.clear", slog.String("tenant", tenant))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readOverride reads the override that a request asks for.
func (a *API) readOverride(w http.ResponseWriter, r *http.Request, now time.Time) (tenants.Override, error) {
	var said adminapi.Override
	tenant := r.PathValue("tenant")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxKeyRequest))
	if err == nil {
		err = jsonscan.Decode(body, &said)
	}
	if err != nil {
		return tenants.Override{}, adminapi.BadRequest("The body does not describe an override: " + err.Error() + `. Send {"tpm": 500000, "until": "2027-01-31T00:00:00Z", "why": "launch"}.`)
	}
	o := tenants.Override(said)
	limits := o.Amounts()
	for k, amount := range limits {
		if amount < 0 || amount > tenants.MaxOverride {
			return o, adminapi.BadRequest(fmt.Sprintf("%s must be from 0, at which no call passes, to %d, not %d.", k.Key(), tenants.MaxOverride, amount))
		}
	}
	switch {
	case o.Tenant != "" && o.Tenant != tenant:
		return o, adminapi.BadRequest("The path names tenant " + strconv.Quote(text.Brief(tenant)) + ", and the body " + strconv.Quote(text.Brief(o.Tenant)) + ". Leave tenant out of the body.")
	case len(limits) == 0:
		return o, adminapi.BadRequest("No limit is overridden. Send one of rpm, tpm, itpm, otpm and concurrency.")
	case o.Until != nil && (!o.Live(now) || o.Until.Year() > 9999):
		return o, adminapi.BadRequest("until, " + o.Until.Format(time.RFC3339) + ", is over or too far. Write a time to come, or leave it out for an override without an end.")
	case o.Why == "":
		return o, adminapi.BadRequest("why is missing; give the reason, such as \"launch\", for those who find the override.")
	case utf8.RuneCountInString(o.Why) > mostWhy || !utf8.ValidString(o.Why) || strings.ContainsFunc(o.Why, func(c rune) bool { return !unicode.IsPrint(c) }):
		return o, adminapi.BadRequest(fmt.Sprintf("why has more than %d characters, or what cannot be printed; give the reason in a line.", mostWhy))
	}
	if _, known := a.gateway.Snapshot().TenantByName(tenant); !known {
		return o, tenantNotFound(tenant)
	}
	o.Tenant = tenant
	o.By = callerOf(r).user
	o.Made = now.UTC().Truncate(time.Second)
	if o.Until != nil {
		end := o.Until.UTC().Truncate(time.Second)
		o.Until = &end
	}
	return o, nil
}

// sameOverride reports whether two overrides do the same, whoever made them when.
func sameOverride(a, b tenants.Override) bool {
	b.By = a.By
	b.Made = a.Made
	return etag(&a) == etag(&b)
}

// asExpected refuses a change of what is not as its sender thinks (RFC 9110, 13.1).
func asExpected(r *http.Request, list []tenants.Override, at int) error {
	is := func(name string) (said, fits bool) {
		tags := r.Header.Get(name)
		if at < 0 {
			return tags != "", false
		}
		for tag := range strings.SplitSeq(tags, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag(&list[at]) {
				return true, true
			}
		}
		return tags != "", false
	}
	match, fits := is("If-Match")
	unless, there := is("If-None-Match")
	if match && !fits || unless && there {
		return &adminapi.Fault{Status: http.StatusPreconditionFailed, Code: "override_changed", Message: "The override is not as If-Match or If-None-Match says: somebody has changed it, or it has ended. Read it again."}
	}
	return nil
}

func overrideError(err error) error {
	if errors.Is(err, ErrStore) {
		return &adminapi.Fault{Status: http.StatusServiceUnavailable, Code: "store_unavailable", Message: "Overrides stay as they were: " + err.Error() + ". Try again."}
	}
	return err
}
