package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/bearer"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// peerHeader shows that another gateway asks, by a proof that it has the admin token: whoever can write to the store can have it ask
// any address, and must not get the token. Who is asked so asks nobody else.
const peerHeader = "X-Llmgov-Peer"

const (
	// peersPatience is the time that other gateways have to answer, less than callers wait for all of them.
	peersPatience = 2 * time.Second
	// mostPeers is how many of them are asked.
	mostPeers = 100
	// mostExplanation is the largest answer that is read, in bytes.
	mostExplanation = 1 << 20
)

// fromPeer reports whether a gateway with the same token asks for an explanation. It may ask for nothing else.
func fromPeer(own bearer.Token, r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/api/v1/explain" && own.Proves(r.Header.Get(peerHeader), r.URL.RequestURI())
}

// refusalElsewhere explains a refusal that this gateway does not know, if one of the others does. none is the answer otherwise.
func (a *API) refusalElsewhere(ctx context.Context, query url.Values, none *adminapi.Fault) (*adminapi.Explanation, error) {
	var peers []adminapi.Peer
	if a.Peers != nil {
		peers = a.Peers()
	}
	peers = peers[:min(len(peers), mostPeers)]
	ctx, cancel := context.WithTimeout(ctx, peersPatience)
	defer cancel()
	type said struct {
		x   *adminapi.Explanation
		err error
	}
	answers := make([]chan said, len(peers))
	for i, p := range peers {
		answers[i] = make(chan said, 1)
		go func() {
			x, err := a.askPeer(ctx, p, "/api/v1/explain?"+query.Encode())
			answers[i] <- said{x, err}
		}()
	}
	text := none.Message
	for i, p := range peers {
		got := <-answers[i]
		fault, answered := errors.AsType[*adminapi.Fault](got.err)
		switch {
		case got.err == nil:
			return got.x, nil
		case answered && fault.Status != http.StatusNotFound:
			return nil, fault
		case answered:
			text += " Gateway " + p.Name + " does not know it either."
		default:
			text += " Gateway " + p.Name + " may: it was asked, but " + got.err.Error() + "."
		}
	}
	return nil, &adminapi.Fault{Status: none.Status, Code: none.Code, Message: text}
}

// askPeer asks another gateway for an explanation. The error is an *adminapi.Fault if it has answered that there is none.
func (a *API) askPeer(ctx context.Context, p adminapi.Peer, uri string) (*adminapi.Explanation, error) {
	if p.Address == "" {
		return nil, errors.New("its admin side listens on an address that others cannot reach")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Address+uri, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set(peerHeader, a.token().Proof(uri))
	resp, err := a.PeerClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer (%w)", p.Address, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	body := io.LimitReader(resp.Body, mostExplanation)
	var x adminapi.Explanation
	var none adminapi.ErrorAnswer
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, errors.New("it has another admin token, or an older version")
	case resp.StatusCode == http.StatusOK && json.NewDecoder(body).Decode(&x) == nil && x.Decision != nil:
		return &x, nil
	case resp.StatusCode != http.StatusOK && json.NewDecoder(body).Decode(&none) == nil && strings.HasPrefix(none.Error.Code, "request_"):
		return nil, &adminapi.Fault{Status: resp.StatusCode, Code: none.Error.Code, Message: none.Error.Message}
	}
	return nil, fmt.Errorf("it answered with status %d", resp.StatusCode)
}
