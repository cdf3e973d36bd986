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

// Overrides keeps what operators set at run time.
type Overrides interface {
	// InForce is what is set and has not ended.
	InForce() tenants.AtRuntime
	// Change puts in force, here and at all gateways, what edit makes of what has not ended. It may call edit again, if others
	// change it at the same time. The error is that of edit, ErrStore, ErrNoFiles, tenants.Problems, or why all stays as it is.
	Change(ctx context.Context, edit func(*tenants.AtRuntime) error) error
}

// ErrStore is the error of a change that the shared store has not taken.
var ErrStore = errors.New("the store of all gateways does not answer")

// mostWhy is the longest reason of an override, in characters.
const mostWhy = 256

// listOverrides answers GET /api/v1/overrides.
func (a *API) listOverrides(w http.ResponseWriter, _ *http.Request) {
	respond(w, adminapi.OverrideList{Overrides: listed(a.Overrides.InForce().Overrides)})
}

// showOverride answers GET /api/v1/overrides/{tenant}.
func (a *API) showOverride(w http.ResponseWriter, r *http.Request) error {
	list := a.Overrides.InForce().Overrides
	at := overrides.find(a, list, r.PathValue("tenant"))
	if at < 0 {
		return &adminapi.Fault{Status: http.StatusNotFound, Code: "override_not_found", Message: "There is no override of " + strconv.Quote(text.Brief(r.PathValue("tenant"))) + ". GET /api/v1/overrides lists all."}
	}
	respondState(w, http.StatusOK, list[at], list[at])
	return nil
}

// respondState answers with a view of something that is set at run time.
func respondState(w http.ResponseWriter, status int, state, view any) {
	w.Header().Set("ETag", etag(state))
	w.Header().Set("Cache-Control", "no-store")
	respondAs(w, status, view)
}

// etag tells one state of something from any other.
func etag(state any) string {
	data, _ := json.Marshal(state) // numbers, texts and times
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// setOverride answers PUT /api/v1/overrides/{tenant}. What is there already stays as it is.
func (a *API) setOverride(w http.ResponseWriter, r *http.Request) error {
	next, err := a.readOverride(w, r, time.Now())
	if err != nil {
		return err
	}
	before, now, status, err := overrides.set(a, r, next)
	if err != nil {
		return overrideError(err)
	}
	if etag(before) != etag(now) {
		a.audit(r, "override.set", slog.String("tenant", now.Tenant), slog.String("limits", now.Limits()), slog.String("before", before.Limits()), slog.Any("until", now.Until), slog.String("reason", now.Why))
	}
	respondState(w, status, now, now)
	return nil
}

// clearOverride answers DELETE /api/v1/overrides/{tenant}. To clear none changes nothing.
func (a *API) clearOverride(w http.ResponseWriter, r *http.Request) error {
	before, err := overrides.clear(a, r, r.PathValue("tenant"))
	if err != nil {
		return overrideError(err)
	}
	if before.Tenant != "" {
		a.audit(r, "override.clear", slog.String("tenant", before.Tenant), slog.String("before", before.Limits()))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readOverride reads the override that a request asks for.
func (a *API) readOverride(w http.ResponseWriter, r *http.Request, now time.Time) (tenants.Override, error) {
	var o tenants.Override
	snap := a.gateway.Snapshot()
	tenant := r.PathValue("tenant")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxKeyRequest))
	if err == nil {
		err = jsonscan.Decode(body, &o)
	}
	if err != nil {
		return o, adminapi.BadRequest("The body does not describe an override: " + err.Error() + `. Send {"tpm": 500000, "until": "2027-01-31T00:00:00Z", "why": "launch"}.`)
	}
	switch {
	case o.Tenant != "" && snap.Canonical(o.Tenant) != snap.Canonical(tenant):
		return o, adminapi.BadRequest("The path names tenant " + strconv.Quote(text.Brief(tenant)) + ", and the body " + strconv.Quote(text.Brief(o.Tenant)) + ". Leave tenant out of the body.")
	case o.Until != nil && (!o.Live(now) || o.Until.Year() > 9999):
		return o, adminapi.BadRequest("until, " + o.Until.Format(time.RFC3339) + ", is over or too far. Write a time to come, or leave it out for an override without an end.")
	case o.Why == "":
		return o, adminapi.BadRequest("why is missing; give the reason, such as \"launch\", for those who find the override.")
	case utf8.RuneCountInString(o.Why) > mostWhy || !utf8.ValidString(o.Why) || strings.ContainsFunc(o.Why, func(c rune) bool { return !unicode.IsPrint(c) }):
		return o, adminapi.BadRequest(fmt.Sprintf("why has more than %d characters, or what cannot be printed; give the reason in a line.", mostWhy))
	}
	if _, known := snap.TenantOf(tenant); !known {
		return o, tenantNotFound(tenant)
	}
	o.Tenant = snap.Canonical(tenant)
	if complaint := snap.CheckOverride(&o); complaint != "" {
		return o, adminapi.BadRequest(complaint)
	}
	o.By = callerOf(r).user
	o.Made = now.UTC().Truncate(time.Second)
	if o.Until != nil {
		end := o.Until.UTC().Truncate(time.Second)
		o.Until = &end
	}
	return o, nil
}

// atRuntime are things of one kind that are set at run time, by their names.
type atRuntime[T any] struct {
	of   func(*tenants.AtRuntime) *[]T
	name func(*T) string
	same func(a, b T) bool // whether they do the same, whoever made them when
}

var overrides = atRuntime[tenants.Override]{
	of:   func(set *tenants.AtRuntime) *[]tenants.Override { return &set.Overrides },
	name: func(o *tenants.Override) string { return o.Tenant },
	same: func(a, b tenants.Override) bool {
		b.By = a.By
		b.Made = a.Made
		return etag(a) == etag(b)
	},
}

// find is the index of what has a name in a list, the last if there are several; -1 if there is nothing.
func (k *atRuntime[T]) find(a *API, list []T, name string) (at int) {
	is := k.called(a, name)
	at = len(list) - 1
	for at >= 0 && !is(list[at]) {
		at--
	}
	return at
}

// called tells what has a name.
func (k *atRuntime[T]) called(a *API, name string) func(T) bool {
	snap := a.gateway.Snapshot()
	name = snap.Canonical(name)
	return func(one T) bool { return snap.Canonical(k.name(&one)) == name }
}

// set puts next in force, unless what is there does the same. It returns what was in force before, if anything, and is now.
func (k *atRuntime[T]) set(a *API, r *http.Request, next T) (before, now T, status int, err error) {
	err = a.Overrides.Change(r.Context(), func(set *tenants.AtRuntime) error {
		now = next
		status = http.StatusOK
		list := k.of(set)
		at := k.find(a, *list, k.name(&next))
		if at < 0 {
			var none T
			before = none
			status = http.StatusCreated
			*list = append(*list, next)
			return asExpected(r, "")
		}
		there := &(*list)[at]
		before = *there
		if !k.same(before, next) {
			*there = next
		}
		now = *there
		return asExpected(r, etag(before))
	})
	return before, now, status, err
}

// clear clears all that is set under a name, and returns what was in force, if anything.
func (k *atRuntime[T]) clear(a *API, r *http.Request, name string) (before T, err error) {
	err = a.Overrides.Change(r.Context(), func(set *tenants.AtRuntime) error {
		var none T
		before = none
		list := k.of(set)
		at := k.find(a, *list, name)
		if at < 0 {
			return asExpected(r, "")
		}
		before = (*list)[at]
		*list = slices.DeleteFunc(*list, k.called(a, name))
		return asExpected(r, etag(before))
	})
	return before, err
}

// asExpected refuses a change of what is not as its sender thinks (RFC 9110, 13.1), given its etag; "" if there is none.
func asExpected(r *http.Request, state string) error {
	is := func(name string) (said, fits bool) {
		tags := r.Header.Get(name)
		for tag := range strings.SplitSeq(tags, ",") {
			if tag = strings.TrimSpace(tag); state != "" && (tag == "*" || strings.TrimPrefix(tag, "W/") == state) {
				return true, true
			}
		}
		return tags != "", false
	}
	match, fits := is("If-Match")
	unless, there := is("If-None-Match")
	if match && !fits || unless && there {
		return &adminapi.Fault{Status: http.StatusPreconditionFailed, Code: "override_changed", Message: "It is not as If-Match or If-None-Match says: somebody has changed it, or it has ended. Read it again."}
	}
	return nil
}

func overrideError(err error) error {
	if errors.Is(err, ErrStore) {
		return &adminapi.Fault{Status: http.StatusServiceUnavailable, Code: "store_unavailable", Message: "All stays as it was: " + err.Error() + ". Try again."}
	}
	return err
}
