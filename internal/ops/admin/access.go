package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/bearer"
	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/lib/sampled"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// route is what a request to the admin side comes to, and the role that it needs.
type route struct {
	needs  tenants.Role
	handle http.HandlerFunc
}

// caller is who sends a request to the admin side, and what that may do. The zero role may nothing.
type caller struct {
	tenants.AdminRole
	user string // in the audit log
}

// The callers that no policy names.
var (
	whoHasToken = caller{tenants.AdminRole{Role: tenants.RoleAdmin}, "admin token"}
	whoIsHere   = caller{tenants.AdminRole{Role: tenants.RoleAdmin}, "loopback"}
	otherNode   = caller{tenants.AdminRole{Role: tenants.RoleView}, "another gateway"}
)

type callerKey struct{}

// callerOf is who sends a request that has passed identified.
func callerOf(r *http.Request) caller {
	who, _ := r.Context().Value(callerKey{}).(caller)
	return who
}

// identified finds out who calls. Without an admin token that is whoever addresses the request to localhost or a loopback address: a web
// page elsewhere can make its own name resolve to this machine, but cannot call itself localhost.
func (a *API) identified(next http.Handler) http.Handler {
	wrong := sampled.Gate{Every: time.Minute, Most: 5}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, known := whoIsHere, bearer.Local(r.Host)
		if a.Token != "" {
			who, known = a.find(r)
		}
		switch {
		case known:
			connections.Known(r.Context(), "")
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
		case a.Token == "":
			http.Error(w, "without an admin token, call this listener as localhost or by its loopback address", http.StatusForbidden)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="llmgov admin"`)
			http.Error(w, "the admin token is missing or wrong", http.StatusUnauthorized)
			if unlogged, ok := wrong.Pass(time.Now()); ok {
				a.Log.Warn("admin token missing or wrong", "remote", r.RemoteAddr, "method", text.Brief(r.Method), "path", text.Brief(r.URL.Path), "unlogged", unlogged)
			}
		}
	})
}

// find finds who calls, by a token of the policy, a token of an identity provider, or the word of a proxy. The zero role is that of
// somebody who is known and has none.
func (a *API) find(r *http.Request) (who caller, known bool) {
	own := a.token()
	given := bearer.Credential(r.Header)
	switch {
	case own.Is(given):
		return whoHasToken, true
	case fromPeer(own, r):
		return otherNode, true
	}
	admin := a.gateway.Snapshot().Config().Admin
	for _, role := range admin.Roles {
		if bearer.NewToken(role.Token).Is(given) {
			return caller{role, role.Name}, true
		}
	}
	user, issuer, groups := a.gateway.Groups(given)
	if user == "" {
		issuer = tenants.ProxyIssuer
		user, groups = proxied(&admin.Proxy, r)
	}
	who.user = text.Brief(user)
	for _, role := range admin.Roles {
		if role.Group != "" && (role.Issuer == "" || role.Issuer == issuer) && slices.Contains(groups, role.Group) {
			who.AdminRole = role
			who.user += " (" + role.Name + ")"
			break
		}
	}
	return who, user != ""
}

// proxied is the user of whom a proxy tells that is in one of the policy's networks, with the user's groups; "" if none does.
func proxied(by *tenants.AdminProxy, r *http.Request) (user string, groups []string) {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.ContainsFunc(by.From, func(n netip.Prefix) bool { return n.Contains(at.Addr().Unmap()) }) {
		return "", nil
	}
	for group := range strings.SplitSeq(strings.Join(r.Header.Values(by.Groups), ","), ",") {
		groups = append(groups, strings.TrimSpace(group))
	}
	return r.Header.Get(by.User), groups
}

// token is the token of now: it may be changed while the gateway runs, but not be taken away.
func (a *API) token() bearer.Token {
	return bearer.NewToken(cmp.Or(a.gateway.Snapshot().Config().Admin.Token, a.Token))
}

// allowed lets those callers pass who may do what a route needs.
func allowed(pattern string, to route) http.HandlerFunc {
	return answering(func(w http.ResponseWriter, r *http.Request) error {
		who := callerOf(r)
		if !who.Role.May(to.needs) {
			has := "no role: admin.roles names none of its groups"
			if who.Role != "" {
				has = "the role " + string(who.Role)
			}
			return notAllowed(fmt.Sprintf("%s needs the role %s, and %s has %s.", strings.Replace(pattern, "...", "", 1), to.needs, who.user, has))
		}
		to.handle(w, r)
		return nil
	})
}

func notAllowed(message string) *adminapi.Fault {
	return &adminapi.Fault{Status: http.StatusForbidden, Code: "role_not_allowed", Message: message}
}
