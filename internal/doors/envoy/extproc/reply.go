package extproc

import (
	"net/http"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// mutation sets and removes headers.
func mutation(set http.Header, remove []string) *pb.HeaderMutation {
	m := &pb.HeaderMutation{RemoveHeaders: remove, SetHeaders: make([]*corev3.HeaderValueOption, 0, len(set))}
	for name, values := range set {
		for _, v := range values {
			m.SetHeaders = append(m.SetHeaders, &corev3.HeaderValueOption{
				Header:       &corev3.HeaderValue{Key: name, RawValue: []byte(v)},
				AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
			})
		}
	}
	return m
}

// headersOf are the headers of a message, without those of HTTP/2 whose names begin with a colon.
func headersOf(m *corev3.HeaderMap) http.Header {
	h := make(http.Header, len(m.GetHeaders()))
	for _, v := range m.GetHeaders() {
		if v.GetKey() != "" && v.GetKey()[0] != ':' {
			h.Add(v.GetKey(), valueOf(v))
		}
	}
	return h
}

// single is a header as it came, which may be one of HTTP/2 whose name begins with a colon.
func single(m *corev3.HeaderMap, name string) string {
	for _, v := range m.GetHeaders() {
		if v.GetKey() == name {
			return valueOf(v)
		}
	}
	return ""
}

func valueOf(v *corev3.HeaderValue) string {
	if raw := v.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return v.GetValue()
}

// immediate is an answer that the proxy gives its caller at once.
func immediate(code int, h http.Header, body []byte) *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ImmediateResponse{ImmediateResponse: &pb.ImmediateResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode(code)}, Headers: mutation(h, nil), Body: body, Details: "llmgov",
	}}}
}

func requestHeaders(r *pb.CommonResponse) *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_RequestHeaders{RequestHeaders: &pb.HeadersResponse{Response: r}}}
}

func requestBody(r *pb.CommonResponse) *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_RequestBody{RequestBody: &pb.BodyResponse{Response: r}}}
}

func responseHeaders(r *pb.CommonResponse) *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseHeaders{ResponseHeaders: &pb.HeadersResponse{Response: r}}}
}

func responseBody(r *pb.CommonResponse) *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseBody{ResponseBody: &pb.BodyResponse{Response: r}}}
}

func requestTrailers() *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_RequestTrailers{RequestTrailers: &pb.TrailersResponse{}}}
}

func responseTrailers() *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseTrailers{ResponseTrailers: &pb.TrailersResponse{}}}
}

// withBody replaces a body.
func withBody(body []byte) *pb.BodyMutation {
	if len(body) == 0 {
		return &pb.BodyMutation{Mutation: &pb.BodyMutation_ClearBody{ClearBody: true}}
	}
	return &pb.BodyMutation{Mutation: &pb.BodyMutation_Body{Body: body}}
}
