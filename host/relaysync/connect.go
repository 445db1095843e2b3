package relaysync

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"talon/host"
	"talon/host/netguard"
	"talon/host/relayclient"
	"talon/sdk/abi"
)

// connect asks the relay what it is (NIP-11), and opens the websocket.
func (c *conn) connect() error {
	l := &c.env.cfg.Limits
	ctx, cancel := context.WithTimeout(c.ctx, l.ConnectTime)
	defer cancel()
	if !c.knows {
		info, err := c.inform(ctx)
		switch {
		case errors.Is(err, netguard.ErrForbidden):
			return err
		case err != nil:
			// Not every relay has one.
			c.env.cfg.Log.Debug("read relay information", "relay", c.url, "err", err)
		case info.isSelf(c.env.cfg.Self):
			return fmt.Errorf("%w: it is this relay under another name", netguard.ErrForbidden)
		default:
			c.knows = true
			info.tell(&c.caps)
		}
	}
	s, err := relayclient.DialSocket(ctx, c.url, relayclient.SocketOptions{
		MessageBytes: l.MessageBytes,
		Compress:     true,
		Dial:         c.env.guard.Dial,
		TLS:          c.env.cfg.TLS,
		UserAgent:    c.env.cfg.Agent,
	})
	if err != nil {
		return err
	}
	c.socket = s
	return nil
}

// information is what we read of a relay's NIP-11 document. Every number is what the
// relay claims.
type information struct {
	Self       string `json:"self"`
	NIPs       []any  `json:"supported_nips"`
	Limitation struct {
		MaxMessage       float64 `json:"max_message_length"`
		MaxSubscriptions float64 `json:"max_subscriptions"`
		MaxFilters       float64 `json:"max_filters"`
		MaxLimit         float64 `json:"max_limit"`
		AuthRequired     bool    `json:"auth_required"`
	} `json:"limitation"`
}

var errRedirect = errors.New("the relay's information is behind a redirect, which is not followed")

// inform fetches the document.
func (c *conn) inform(ctx context.Context) (*information, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http"+strings.TrimPrefix(c.url, "ws"), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/nostr+json")
	if c.env.cfg.Agent != "" {
		req.Header.Set("User-Agent", c.env.cfg.Agent)
	}
	transport := &http.Transport{
		DialContext:            c.env.guard.Dial,
		TLSClientConfig:        c.env.cfg.TLS,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 32 << 10,
		ResponseHeaderTimeout:  c.env.cfg.Limits.ConnectTime / 4,
	}
	client := http.Client{
		Transport:     transport,
		Timeout:       c.env.cfg.Limits.ConnectTime / 2,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, int64(c.env.cfg.Limits.InfoBytes)))
	if err != nil {
		return nil, err
	}
	var info information
	// What has another type than it should is left out, the rest counts.
	if err := json.Unmarshal(text, &info); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return nil, err
	}
	return &info, nil
}

func (i *information) isSelf(own host.PubKey) bool {
	return own != host.PubKey{} && i.Self == own.String()
}

// tell adds what the document says to what is known. That a NIP is not listed means
// nothing.
func (i *information) tell(caps *abi.Capabilities) {
	for _, nip := range i.NIPs {
		if n, ok := nip.(float64); ok && n == 77 && caps.Negentropy == abi.SupportUnknown {
			caps.Negentropy = abi.SupportYes
		}
	}
	count := func(n float64) uint32 {
		if !(n >= 1) {
			return 0
		}
		return uint32(min(n, 1<<30))
	}
	m := &i.Limitation
	caps.MaxMessage = count(m.MaxMessage)
	caps.MaxSubscriptions = count(m.MaxSubscriptions)
	caps.MaxFilters = count(m.MaxFilters)
	caps.MaxLimit = count(m.MaxLimit)
	caps.AuthRequired = m.AuthRequired
}

// classify tells how a connection ended.
func classify(err error, wasUp bool) (uint32, Ending) {
	e := Ending{Outcome: OutcomeUnreachable}
	if err != nil {
		e.Reason = said(err.Error())
	}
	class := uint32(abi.ClassUnreachable)
	if wasUp {
		class, e.Outcome = abi.ClassLost, OutcomeDisconnected
	}
	var status *relayclient.StatusError
	var dns *net.DNSError
	switch {
	case errors.Is(err, netguard.ErrForbidden):
		class, e.Outcome = abi.ClassForbidden, OutcomeRefused
	case errors.Is(err, errBreach), errors.Is(err, relayclient.ErrWebsocket):
		class, e.Outcome = abi.ClassError, OutcomeProtocol
	case errors.As(err, &status):
		e.Status = status.Status
		switch {
		case status.Status == http.StatusTooManyRequests:
			class, e.Outcome = abi.ClassRateLimited, OutcomeRateLimited
		case status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden:
			class, e.Outcome = abi.ClassRestricted, OutcomeRefused
		case status.Status >= 500:
			e.Outcome = OutcomeServer
		default:
			e.Outcome = OutcomeProtocol
		}
	case errors.Is(err, relayclient.ErrHandshake):
		e.Outcome = OutcomeProtocol
	case errors.As(err, &dns):
		if !dns.IsTimeout && !dns.IsTemporary {
			e.Outcome = OutcomeDNS
		}
	case isTLS(err):
		e.Outcome = OutcomeTLS
	case !wasUp && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)):
		e.Outcome = OutcomeTimeout
	}
	return class, e
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var cert *tls.CertificateVerificationError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &cert) || errors.As(err, &name) ||
		errors.As(err, &authority) || errors.As(err, &invalid)
}
