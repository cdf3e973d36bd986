package remote_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote"
	"github.com/llmgov/llmgov/governor/remote/admissionv1"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// wire stands for an llmgov that lets everything in, and has what it was told last.
type wire struct {
	reserve *admissionv1.ReserveRequest
	commit  *admissionv1.CommitRequest
}

func (w *wire) answer(_ context.Context, _ string, req, answer any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
	switch req := req.(type) {
	case *admissionv1.ReserveRequest:
		w.reserve = req
		w.reserve.ReservationId = ""
		proto.Merge(answer.(proto.Message), &admissionv1.ReserveResponse{
			ReservationId: "rsv_1", Ttl: durationpb.New(time.Minute), Tenant: "acme", Pool: "p", Waited: durationpb.New(time.Second), MaxOutputTokens: 7,
		})
	case *admissionv1.CommitRequest:
		w.commit = req
	}
	return nil
}

// Whatever a request, a grant and an end consist of passes between a program and its llmgov, but for what stays in the program.
func TestDial_TellsEverything(t *testing.T) {
	w := &wire{}
	governed := testkit.Must(remote.Dial("llmgov:9091", remote.Options{Connection: []grpc.DialOption{grpc.WithUnaryInterceptor(w.answer)}}))(t)
	defer governed.Close()
	tell := func(req client.Request, end client.End) *client.Lease {
		l := testkit.Must(governed.Reserve(t.Context(), req))(t)
		testkit.OK(t, l.End(end))
		return l
	}
	end := client.End{Outcome: client.AnsweredError, Reported: true, Usage: client.Usage{Input: 5}}
	grant := reflect.ValueOf(tell(client.Request{}, end).Grant)
	for i := range grant.NumField() {
		if name := grant.Type().Field(i).Name; grant.Field(i).IsZero() != (name == "Ungoverned") {
			t.Errorf("Grant.%s is %v", name, grant.Field(i))
		}
	}
	ask := w.reserve
	committed := w.commit
	here := map[string]bool{"Body": true, "Header": true}
	for i := range reflect.TypeFor[client.Request]().NumField() {
		var req client.Request
		field := reflect.ValueOf(&req).Elem().Field(i)
		other(field)
		tell(req, end)
		if name := reflect.TypeFor[client.Request]().Field(i).Name; !here[name] && proto.Equal(w.reserve, ask) {
			t.Errorf("llmgov does not hear of Request.%s", name)
		}
	}
	for i := range reflect.TypeFor[client.End]().NumField() {
		changed := end
		other(reflect.ValueOf(&changed).Elem().Field(i))
		tell(client.Request{}, changed)
		if proto.Equal(w.commit, committed) {
			t.Errorf("llmgov does not hear of End.%s", reflect.TypeFor[client.End]().Field(i).Name)
		}
	}
	for i := range reflect.TypeFor[client.Usage]().NumField() {
		changed := end
		other(reflect.ValueOf(&changed.Usage).Elem().Field(i))
		tell(client.Request{}, changed)
		if proto.Equal(w.commit, committed) {
			t.Errorf("llmgov does not hear of Usage.%s", reflect.TypeFor[client.Usage]().Field(i).Name)
		}
	}
}

// other gives a field another value that a call may have.
func other(field reflect.Value) {
	second := time.Second
	switch field.Interface().(type) {
	case client.Outcome:
		field.Set(reflect.ValueOf(client.Failed))
	case client.Produced:
		field.Set(reflect.ValueOf(client.Produced{Tokens: 3}))
	case client.Usage:
		field.Set(reflect.ValueOf(client.Usage{Output: 3}))
	case client.Retry:
		field.Set(reflect.ValueOf(client.Retry{Key: "k"}))
	case tokens.Size:
		field.Set(reflect.ValueOf(tokens.Size{3}))
	case []string:
		field.Set(reflect.ValueOf([]string{"n"}))
	case *time.Duration:
		field.Set(reflect.ValueOf(&second))
	case string:
		field.SetString("x")
	case int, int64:
		field.SetInt(field.Int() + 501)
	case bool:
		field.SetBool(!field.Bool())
	}
}
