package tenants

import (
	"encoding/base64"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Webhook is told of what somebody should know.
type Webhook struct {
	// URL is where it is told, by POST.
	URL string
	// Secret signs what is sent; empty does not.
	Secret string
	// On are the kinds of news that it wants, of NewsKinds; none is all.
	On []string
	// Format is FormatSlack, or empty for JSON with all fields.
	Format string
}

// NewsKinds are what a Webhook can be told of.
var NewsKinds = []string{"budget", "starved", "policy", "store", "upstream"}

var newsKinds = words[string]{"a kind of news", NewsKinds}

// FormatSlack is the format that Slack's incoming webhooks expect.
const FormatSlack = "slack"

// maxWebhooks is how many there may be.
const maxWebhooks = 16

var webhookShape = shape[Webhook]{
	Fields: []field[Webhook]{
		{
			Name: "webhook", About: "The URL that is told, by POST.", Kind: strictyaml.TextKind(`^https?://\S+$`),
			Read: func(v value, w *Webhook) { w.URL = readWebhookURL(v) }, Need: "write the URL that is to be told",
		},
		{
			Name: "secret", About: "Signs what is sent, as Standard Webhooks does. A file: \"file:/run/secrets/webhook\".", Kind: strictyaml.TextKind(`^\S+$`),
			Read: func(v value, w *Webhook) { w.Secret = readHookSecret(v) },
		},
		{
			Name: "on", About: "What it is told of. Left out, everything.", Kind: strictyaml.ListOf(newsKinds.kind(), 1, true),
			Read: func(v value, w *Webhook) { w.On = newsKinds.readAll(v) },
		},
		{
			Name: "format", About: "slack is the body that Slack's incoming webhooks expect. Left out, it is JSON with all fields.", Kind: strictyaml.WordKind(FormatSlack),
			Read: func(v value, w *Webhook) {
				text, ok := v.Scalar()
				if ok && text != FormatSlack {
					v.Problem("%s is no format; write slack, or leave it out", v.Say(text))
				}
				w.Format = text
			},
		},
	},
	Short: "webhook",
}

// readWebhookURL reads an address, which problems do not show: those of some services are secrets.
func readWebhookURL(v value) string {
	text, ok := v.Scalar()
	if !ok {
		return strictyaml.Unreadable
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "":
		v.Problem("value (not shown) is no address of a webhook; write a URL such as https://hooks.example.com/llmgov, without a user in it")
		return strictyaml.Unreadable
	case linkLocal(u.Hostname()):
		v.Problem("value (not shown) is the address of a link-local service, which is not called; write that of the receiver")
	}
	return text
}

func readHookSecret(v value) string {
	text := readSecret(v)
	if _, complaint := parseHookSecret(text); complaint != "" && checkSecret(text) == "" {
		v.Problem("value (not shown) %s", complaint)
	}
	return text
}

// parseHookSecret complains about what is no secret, and about one that its beginning calls base64 and that is none.
func parseHookSecret(text string) (string, string) {
	if key, is := strings.CutPrefix(text, "whsec_"); is {
		if _, err := base64.StdEncoding.DecodeString(key); err != nil || key == "" {
			return text, "is no base64 after whsec_; write it as the receiver has it, or leave out whsec_ if it is to be taken as it is"
		}
	}
	return text, checkSecret(text)
}

func linkLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.Unmap().IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified())
}

func readNotify(v value, c *configFile) {
	items, _ := v.Items()
	if len(items) > maxWebhooks {
		v.Problem("lists %d webhooks; write at most %d", len(items), maxWebhooks)
		return
	}
	for _, it := range items {
		var w Webhook
		webhookShape.Read(it, &w)
		if slices.ContainsFunc(c.notify, func(o Webhook) bool { return o.URL == w.URL }) && w.URL != strictyaml.Unreadable {
			it.Problem("has a webhook (not shown) that another entry has; write one entry, with all that it is to be told of")
		}
		c.notify = append(c.notify, w)
	}
}
