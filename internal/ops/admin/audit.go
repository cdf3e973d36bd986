package admin

import (
	"log/slog"
	"net/http"

	"github.com/llmgov/llmgov/internal/lib/text"
)

// whyHeader is the reason for a change, in its sender's words.
const whyHeader = "X-Llmgov-Why"

// audit logs one line about a change made through the admin API, once it is made: what, who, from where and, if its sender says so, why.
// The attributes must not contain secrets.
func (a *API) audit(r *http.Request, action string, attrs ...slog.Attr) {
	who := callerOf(r)
	attrs = append([]slog.Attr{
		slog.String("action", action), slog.String("actor", who.user), slog.String("role", string(who.Role)), slog.String("remote", r.RemoteAddr),
	}, attrs...)
	if why := r.Header.Get(whyHeader); why != "" {
		attrs = append(attrs, slog.String("why", text.Brief(why)))
	}
	a.Log.LogAttrs(r.Context(), slog.LevelInfo, "audit", attrs...)
}
