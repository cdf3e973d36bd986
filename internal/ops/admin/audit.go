package admin

import (
	"context"
	"log/slog"
	"net/http"
)

// The kinds of senders of a request to the admin API.
const (
	actorToken    = "admin token"
	actorLoopback = "loopback"
)

type actorOf struct{}

// by records the sender of a request, for the audit log.
func by(actor string, r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), actorOf{}, actor))
}

// audit logs one line about a change made through the admin API, once it is made. The attributes
// must not contain secrets.
func (a *API) audit(r *http.Request, action string, attrs ...slog.Attr) {
	actor, _ := r.Context().Value(actorOf{}).(string)
	a.Log.LogAttrs(r.Context(), slog.LevelInfo, "audit", append([]slog.Attr{
		slog.String("action", action), slog.String("actor", actor), slog.String("remote", r.RemoteAddr),
	}, attrs...)...)
}
