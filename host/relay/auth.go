package relay

import (
	"crypto/subtle"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/wire"
)

// authWindow is how far created_at of an AUTH event may be from now (NIP-42).
const authWindow = 10 * time.Minute

// sendChallenge sends the challenge, once. It is valid as long as the connection.
func (c *conn) sendChallenge() {
	if c.challenged.Swap(true) {
		return
	}
	c.send(outAuth, wire.AppendAuth(nil, hex.EncodeToString(c.challenge[:])))
}

// auth answers an AUTH message. A client may prove several keys.
func (c *conn) auth(e *host.Event) {
	reason := c.authenticate(e)
	if reason == "" {
		c.relay.metrics.authOK.Inc()
	} else {
		c.relay.metrics.authRefused.Inc()
		c.sendChallenge() // for another attempt
	}
	c.send(outOK, wire.AppendOK(nil, e.ID.String(), reason == "", reason))
}

// authenticate adds the event's author to the proven keys, or says why not.
func (c *conn) authenticate(e *host.Event) string {
	if e.Kind != host.KindAuth {
		return "invalid: an AUTH event must be of kind 22242"
	}
	if off := c.relay.cfg.Now().Sub(time.Unix(e.CreatedAt, 0)); off > authWindow || off < -authWindow {
		return "invalid: created_at must be within 10 minutes of now"
	}
	var challenge [32]byte
	if text, ok := tagValue(e, "challenge"); !ok {
		return "invalid: the challenge tag is missing"
	} else if !host.ParseHex(challenge[:], text) || subtle.ConstantTimeCompare(challenge[:], c.challenge[:]) == 0 {
		return "invalid: the challenge is not the one that was sent on this connection"
	}
	if text, ok := tagValue(e, "relay"); !ok {
		return "invalid: the relay tag is missing"
	} else if site, ok := siteOf(text); !ok || !slices.Contains(c.sites, site) {
		return "invalid: the relay tag names another relay"
	}
	if slices.Contains(c.authed, e.PubKey) {
		return ""
	}
	if len(c.authed) >= c.relay.cfg.Limits.AuthedKeys {
		return "restricted: too many keys on one connection"
	}
	if err := c.relay.deps.Verify(e); err != nil {
		return "invalid: " + err.Error()
	}
	// Items in the pipeline hold the old slice.
	c.authed = append(slices.Clip(c.authed), e.PubKey)
	if c.client != nil {
		client := *c.client
		client.Authed = c.authed
		c.client = &client
	}
	c.relay.index.prove(c)
	c.recognise()
	return ""
}

// tagValue returns the value of the first tag with this name.
func tagValue(e *host.Event, name string) (string, bool) {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == name {
			return tag[1], true
		}
	}
	return "", false
}

// siteOf reduces a relay URL to what must be equal: host and port, without the
// port that the scheme implies. ws and wss count as the same, since a proxy in front may
// speak TLS for us. Path and query do not matter: clients send the URL that a user typed.
func siteOf(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.User != nil {
		return "", false
	}
	if s := strings.ToLower(u.Scheme); s != "ws" && s != "wss" {
		return "", false
	}
	return site(u.Host)
}

// site normalises host[:port].
func site(hostPort string) (string, bool) {
	s := strings.ToLower(hostPort)
	s = strings.TrimSuffix(s, ":80")
	s = strings.TrimSuffix(s, ":443")
	s = strings.TrimSuffix(s, ":")
	name, port, _ := strings.Cut(s, ":")
	if strings.HasPrefix(s, "[") || port == "" {
		return strings.TrimSuffix(s, "."), s != ""
	}
	return strings.TrimSuffix(name, ".") + ":" + port, name != ""
}
