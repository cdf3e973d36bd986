package admissionserver

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/llmgov/llmgov/internal/lib/bearer"
)

// tap finds out who calls by gRPC, before anything of the call is read.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	at, _ := peer.FromContext(ctx)
	who, wrong := s.caller(request{credentialOf(info.Header), first(info.Header, ":authority"), info.FullMethodName}, at.String)
	if wrong == nil && !who.Trusted() && !s.open[serviceOf(info.FullMethodName)] {
		wrong = &fault{http.StatusForbidden, "this service needs the admission.token: a tenant's key does not suffice"}
	}
	if wrong == nil {
		wrong = known(connOf(ctx), who)
	}
	if wrong != nil {
		return nil, status.Error(codesOf[wrong.status], wrong.text)
	}
	if info, ok := at.AuthInfo.(connInfo); ok && who.Trusted() {
		info.frames.trusted.Store(true)
	}
	return context.WithValue(ctx, callerKey{}, who), nil
}

var codesOf = map[int]codes.Code{
	http.StatusUnauthorized: codes.Unauthenticated, http.StatusForbidden: codes.PermissionDenied, http.StatusServiceUnavailable: codes.Unavailable,
}

// connOf is the context of a gRPC call's connection.
func connOf(ctx context.Context) context.Context {
	if at, ok := peer.FromContext(ctx); ok {
		if info, ok := at.AuthInfo.(connInfo); ok {
			return info.conn
		}
	}
	return ctx
}

func serviceOf(method string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return service
}

// credentialOf is the credential in the metadata of a call.
func credentialOf(md metadata.MD) string {
	return bearer.Among(first(md, "authorization"), first(md, "x-api-key"), first(md, "api-key"))
}

func first(md metadata.MD, name string) string {
	if v := md[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
