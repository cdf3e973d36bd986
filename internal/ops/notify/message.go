package notify

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// message is what a hook is told. It may be sent several times, with one id.
type message struct {
	id   string
	at   time.Time
	fact Fact
	over bool
	node string
}

// payload is the body of a message: an envelope as Standard Webhooks has it.
type payload struct {
	Type      string    `json:"type"` // as in Fact.On
	Timestamp time.Time `json:"timestamp"`
	Data      data      `json:"data"`
}

type data struct {
	State    string `json:"state"` // firing or resolved
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Gateway  string `json:"gateway"`
	Tenant   string `json:"tenant,omitempty"`
	Pool     string `json:"pool,omitempty"`
	Upstream string `json:"upstream,omitempty"`
}

// idOf is the id of a message, by which receivers tell repetitions: that of all gateways of which one tells it.
func (n *Notifier) idOf(f *Fact) string {
	id := rand.Text()
	if !f.Once.IsZero() {
		sum := sha256.Sum256([]byte(cmp.Or(n.Fleet, n.Node) + " " + f.Key + " " + f.Once.UTC().Format(time.RFC3339)))
		id = base32.StdEncoding.EncodeToString(sum[:])[:len(id)]
	}
	return "msg_" + id
}

func (m *message) text() string {
	if m.over {
		return "Over: " + m.fact.Message
	}
	return m.fact.Message
}

// escape is for texts of Slack, in which these characters begin commands.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (m *message) body(slack bool) []byte {
	var v any = payload{m.fact.On, m.at.UTC(), data{
		State: "firing", Severity: m.fact.Severity, Message: m.fact.Message, Gateway: m.node, Tenant: m.fact.Tenant, Pool: m.fact.Pool, Upstream: m.fact.Upstream,
	}}
	switch {
	case slack:
		v = map[string]string{"text": escape.Replace("llmgov " + m.node + ": " + m.text())}
	case m.over:
		p := v.(payload)
		p.Data.State = "resolved"
		v = p
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic("llmgov: BUG: a message cannot be encoded: " + err.Error())
	}
	return text
}

// sign sets the headers of Standard Webhooks: the id, by which receivers tell repetitions, the time, and a signature over both and the body.
func (m *message) sign(h http.Header, secret string, body []byte, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	h.Set("webhook-id", m.id)
	h.Set("webhook-timestamp", at)
	if secret == "" {
		return
	}
	key := []byte(secret)
	if text, is := strings.CutPrefix(secret, "whsec_"); is {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			key = decoded
		}
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(m.id + "." + at + "."))
	mac.Write(body)
	h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
